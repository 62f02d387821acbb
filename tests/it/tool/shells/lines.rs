//! Generates the lines to try: random sequences of pieces of the shell's language, and mutations of
//! lines that once deceived the parser.

/// Pieces that make most lines invalid or misleading. The stubs `zqa` and `zqb` record that they
/// ran.
const NASTY: &[&str] = &[
    "'",
    "\"",
    "\\",
    "\\\n",
    "$",
    "$(",
    ")",
    "`",
    "(",
    "{",
    "}",
    "{}",
    ";",
    ";;",
    "&",
    "&&",
    "||",
    "|",
    "|&",
    "&>",
    ">&",
    ">&-",
    "<&",
    "<>",
    ">|",
    ">>",
    "<<<",
    "<<E",
    "<(",
    ">(",
    "\n",
    "\r",
    "\t",
    " ",
    "#",
    "=",
    "X=1 ",
    "zqa=",
    "!",
    "! ",
    "*",
    "?",
    "[",
    "]",
    "[[ ",
    "]]",
    "~",
    "~/",
    "^",
    "%",
    "@",
    ",",
    ":",
    "+",
    "-",
    "--",
    "-- ",
    "$X",
    "${X}",
    "\"$X\"",
    "$'",
    "$\"",
    "${X:-",
    "$((",
    "((",
    "))",
    "0",
    "1",
    "2",
    "10>",
    "2>",
    "\u{a0}",
    "\u{85}",
    "\u{3000}",
    "é",
    "\u{1}",
    "\u{7f}",
    "\u{feff}",
    "if ",
    "then ",
    "fi",
    "for x in ",
    "do ",
    "done",
    "case ",
    "esac",
    "time ",
    "coproc ",
    "function ",
    "select ",
    "until ",
    "repeat 2 ",
    "eval ",
    "eval -- ",
    "exec ",
    "builtin ",
    "command ",
    "env ",
    "env -- ",
    "env X=1 ",
    "env -u X ",
    "env -u + ",
    "nice ",
    "nice -n 5 ",
    "nice -- ",
    "nice -5 ",
    "timeout 1 ",
    "timeout -- 1 ",
    "timeout -s 9 1 ",
    "xargs ",
    "xargs -n1 ",
    "xargs -I{} ",
    "xargs -I zqa ",
    "sh -c ",
    "sh -c '",
    "bash -c \"",
    "sh -c + ",
    "sh -ec ",
    "dash -c ",
    "find . -maxdepth 0 -exec ",
    " ';'",
    " \\;",
    " + ",
    " '{}' + ",
    "nohup ",
    "setsid ",
    "printf ",
    "test ",
    "[ ",
    " ]",
    ": ",
    "true ",
    "false ",
    "cd . ",
    "cd / ",
    "set -- ",
    "alias zqa=zqb ",
    "trap zqa EXIT ",
    "wait ",
    "read X ",
    ". ./f ",
    "a/",
    "./",
    "/dev/null ",
    "HEAD~1 ",
    "a#b ",
    "~a",
    "\u{10FFFF}",
    "\0",
];

/// Pieces from which the parser can read most commands.
const USUAL: &[&str] = &[
    "zqa ",
    "zqb ",
    "zqa",
    "zqb",
    "x ",
    "a=b ",
    "-x ",
    "--long=a,b ",
    "'x y' ",
    "\"x y\" ",
    "'\"' ",
    "\"'\" ",
    "'$X' ",
    "\"a;b\" ",
    "'a\nb' ",
    "'é' ",
    "; ",
    " && ",
    " || ",
    " | ",
    "\n",
    " ",
    ">f ",
    "> f ",
    ">>f ",
    "2>&1 ",
    "2>f ",
    ">./f ",
    ">'a b' ",
    "<f ",
    ">/dev/null ",
    ">&2 ",
    "</dev/null ",
    "; zqa ",
    "\nzqb ",
    " && zqb ",
    " | zqa ",
    "echo x ",
    "echo zqa ",
    "true; ",
    "nice zqa ",
    "env zqa ",
    "timeout 1 zqb ",
    "echo x | xargs zqa ",
    "sh -c 'zqa x' ",
    "sh -c \"zqb 'y z'\" ",
    "eval 'zqa x' ",
    "eval zqa ",
    "find . -maxdepth 0 -exec zqa ';' ",
    "exec zqa ",
    "command zqb ",
    "[ -f x ] ",
    "HEAD^ ",
    "1 ",
    "2 ",
    "%1 ",
    "@ ",
];

/// Lines that once ran a command that the parser did not see. `zqa` stands for that command.
const ATTACKS: &[&str] = &[
    "echo \"$\\\n(zqa)\"",
    "echo $\\\nX; zqa",
    "echo \"$\\\n{X:-$(zqa)}\"",
    "zqb >&-zqa",
    "zqb >& -zqa",
    "eval -- 'zqa x'",
    "eval 'zqa x'",
    "env -- A=b zqa x",
    "env -u A zqa x",
    "timeout -- 5 zqa x",
    "timeout 5 zqa x",
    "find . -maxdepth 0 -exec env -u + zqa x ';'",
    "find . -maxdepth 0 -exec zqa '{}' +",
    "sh -c 'true &>/dev/null zqa x'",
    "sh -c + 'zqa x'",
    "sh -c 'zqa x' zqb y",
    "bash -c \"zqa 'x y'\"",
    "true &>/dev/null zqa x",
    "true |& zqa x",
    "echo x | xargs -I{} zqa {}",
    "echo zqa | xargs -n1 nice",
    "zqb > a/../f",
    "zqb > ./f 2>&1",
    "cd . && zqa > f",
    "X=1 zqa; env X=1 zqb",
    "zqa #x; zqb",
    "zqa x#y; zqb ''#z",
    "echo \"a\\\"; zqa \\\"b\"",
    "echo 'a'\\''b; zqa'",
    "zqa ~a b~c d=~ e:~",
    "zqa {a,b} [a] a?b * HEAD~1",
    "zqa\u{a0}x; zqb 'a\u{a0}b'",
    "! zqa && zqb || zqa | zqb",
    "zqa 1>f 2>>f <f; zqb 12>f",
    "wait -np 'a[$(zqa)]'",
    "test -v 'a[$(zqa)]'; [ 'a[$(zqa)]' -eq 1 ]",
    "printf -v a zqa; printf %d 'a[$(zqa)]'",
    "zqa <<E\nzqb\nE\nzqa",
    "zqa <<<zqb",
    "f() { zqa; }; f",
];

/// Random generator of lines. The same seed gives the same lines.
pub(super) struct Lines(u64);

impl Lines {
    pub(super) fn new(seed: u64) -> Self {
        // Spreads the seed over all bits, because consecutive seeds differ in few, and sets one
        // bit, because xorshift never leaves zero.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a random number below `n` (xorshift64*).
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % n
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn piece(&mut self, nasty_in_10: usize) -> &'static str {
        if self.below(10) < nasty_in_10 {
            self.pick(NASTY)
        } else {
            self.pick(USUAL)
        }
    }

    pub(super) fn next(&mut self) -> String {
        loop {
            let text = match self.below(4) {
                0 => self.changed(),
                1 => self.pieces(6),
                2 => self.pieces(2),
                _ => self.pieces(1),
            };
            if is_safe(&text) {
                return text;
            }
        }
    }

    fn pieces(&mut self, nasty_in_10: usize) -> String {
        let n = 1 + self.below(10);
        (0..n).map(|_| self.piece(nasty_in_10)).collect()
    }

    /// Returns one of [`ATTACKS`] with some characters changed.
    fn changed(&mut self) -> String {
        let mut text: Vec<char> = self.pick(ATTACKS).chars().collect();
        for _ in 0..self.below(4) {
            let at = self.below(text.len() + 1);
            match self.below(3) {
                0 if at < text.len() => {
                    text.remove(at);
                }
                1 if at < text.len() => {
                    let from = self.below(text.len());
                    text[at] = text[from];
                }
                _ => {
                    let piece: Vec<char> = self.piece(7).chars().collect();
                    text.splice(at..at, piece);
                }
            }
        }
        text.into_iter().collect()
    }
}

/// Removes the device `/dev/null` from a line, but not longer names that begin with it.
fn without_null_device(text: &str) -> String {
    let mut pieces = text.split("/dev/null");
    let mut bare = pieces.next().unwrap_or_default().to_owned();
    for after in pieces {
        if after.starts_with(|c: char| !c.is_whitespace() && !";&|<>()".contains(c)) {
            bare.push_str("/dev/null");
        }
        bare.push_str(after);
    }
    bare
}

/// Whether a line names no file outside of the folder in which it runs. Only such lines are run in
/// a real shell.
fn is_safe(text: &str) -> bool {
    let bare = without_null_device(text).replace(['\'', '"', '\\'], "");
    let parents = bare.matches("..").count();
    let is_relative = |(at, _): (usize, &str)| {
        bare[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
    };
    parents <= 2 && bare.match_indices('/').all(is_relative) && !bare.contains("cd")
        || (bare.contains("cd .") && !bare.contains(".."))
            && bare.match_indices('/').all(is_relative)
}
