//! Arguments that are commands: options of well-known programs that make them start others, or write where they are told.
//!
//! Not a list of everything that such programs can do: who allows `make *` allows what the makefile says. It keeps those
//! apart that people take for harmless, so that a rule or an "always" for `git log …` does not carry a command along.

use super::{Command, Word, nested};

const GIT: &str = "git";

/// Options before a verb whose value is the next word.
const WITH_VALUE: &[&str] = &["-C", "--git-dir", "--work-tree", "--namespace"];

/// A program and those of its arguments that are commands, or places to write to.
struct Carrier {
    names: &'static [&'static str],
    /// Letters of short options, also when combined in one word.
    letters: &'static str,
    /// Long options without their dashes; programs take any beginning of them that is clear.
    long: &'static [&'static str],
    /// First arguments after which everything may be a command.
    verbs: &'static [&'static str],
    /// Options that are spelled with one dash, and other whole words.
    words: &'static [&'static str],
}

const NONE: Carrier = Carrier {
    names: &[],
    letters: "",
    long: &[],
    verbs: &[],
    words: &[],
};

const CARRIERS: &[Carrier] = &[
    Carrier {
        names: &[GIT],
        // The short options are those of `git_letters`.
        long: &[
            "config",
            "config-env",
            "exec",
            "exec-path",
            "ext-diff",
            "extcmd",
            "open-files-in-pager",
            "output",
            "output-directory",
            "receive-pack",
            "template",
            "textconv",
            "upload-pack",
        ],
        verbs: &[
            "bisect",
            "config",
            "credential",
            "daemon",
            "difftool",
            "filter-branch",
            "for-each-repo",
            "hook",
            "mergetool",
            "submodule",
            "web--browse",
        ],
        ..NONE
    },
    Carrier {
        names: &["tar", "gtar", "bsdtar"],
        letters: "IF",
        long: &[
            "checkpoint-action",
            "info-script",
            "new-volume-script",
            "rmt-command",
            "rsh-command",
            "to-command",
            "use-compress-program",
        ],
        ..NONE
    },
    Carrier {
        names: &["sort"],
        letters: "o",
        long: &["compress-program", "output"],
        ..NONE
    },
    Carrier {
        names: &["find"],
        words: &["-delete", "-fls", "-fprint", "-fprint0", "-fprintf"],
        ..NONE
    },
    Carrier {
        names: &["rg"],
        long: &["pre", "hostname-bin"],
        ..NONE
    },
    Carrier {
        names: &["fd", "fdfind"],
        letters: "xX",
        long: &["exec", "exec-batch"],
        ..NONE
    },
    Carrier {
        names: &["rsync"],
        letters: "e",
        long: &["rsh", "rsync-path"],
        ..NONE
    },
    Carrier {
        names: &["cargo"],
        long: &["config"],
        ..NONE
    },
    Carrier {
        names: &["go"],
        words: &[
            "-exec",
            "--exec",
            "-toolexec",
            "--toolexec",
            "-vettool",
            "--vettool",
        ],
        ..NONE
    },
    Carrier {
        names: &["zip"],
        letters: "T",
        long: &["unzip-command"],
        ..NONE
    },
    Carrier {
        names: &["man"],
        letters: "HPC",
        long: &["browser", "html", "pager", "preprocessor", "config-file"],
        ..NONE
    },
    Carrier {
        names: &["split"],
        long: &["filter"],
        ..NONE
    },
    Carrier {
        names: &["docker", "podman"],
        verbs: &["exec", "run"],
        ..NONE
    },
    Carrier {
        names: &["npm", "pnpm", "yarn", "bun"],
        verbs: &["dlx", "exec", "explore", "x"],
        ..NONE
    },
    Carrier {
        names: &["uv", "poetry", "pipenv", "pdm", "rye", "hatch"],
        verbs: &["exec", "run", "tool"],
        ..NONE
    },
    // Builtins that look an element of an array up, and with it whatever stands in its index.
    Carrier {
        names: &["test", "["],
        words: &["-v", "-R"],
        ..NONE
    },
    Carrier {
        names: &["wait"],
        words: &["-p"],
        ..NONE
    },
    Carrier {
        names: &["jobs"],
        words: &["-x"],
        ..NONE
    },
];

/// Programs that take commands in any argument.
const WITH_SCRIPTS: &[&str] = &[
    "ed", "emacs", "ex", "gmake", "gsed", "less", "make", "more", "nano", "nvim", "sed", "sqlite3",
    "vi", "view", "vim", "vimdiff",
];

/// Whether a yes for whatever else a program is given would be one for anything.
pub(super) fn takes_scripts(program: &str) -> bool {
    WITH_SCRIPTS.contains(&nested::base_name(program))
}

/// Doubts a part one of whose arguments is a command, or may be one.
pub(super) fn read(name: &str, arguments: &[Word], command: &mut Command) {
    let mut carriers = CARRIERS.iter();
    let Some(carrier) = carriers.find(|carrier| carrier.names.contains(&name)) else {
        return;
    };
    let mut verb = None;
    let mut before = "";
    for (at, word) in arguments.iter().enumerate() {
        // What is in braces, or the name of a file that begins with a dash, may be one of those options.
        let Word::Literal(text) = word else {
            return command.doubt(format!("`{name}` with what is not known here"));
        };
        if verb.is_none() && !text.starts_with('-') && !WITH_VALUE.contains(&before) {
            verb = Some(text.as_str());
        }
        before = text;
        if carrier.carries(at, text, verb) {
            return command.doubt(format!("`{name} {text}` may start or write anything"));
        }
    }
}

impl Carrier {
    /// `verb` is the first argument that is no option, as far as it was read.
    fn carries(&self, at: usize, text: &str, verb: Option<&str>) -> bool {
        if self.words.contains(&text) || (verb == Some(text) && self.verbs.contains(&text)) {
            return true;
        }
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            return !name.is_empty() && self.long.iter().any(|option| option.starts_with(name));
        }
        let is_git = self.names.contains(&GIT);
        let own = if is_git {
            git_letters(verb)
        } else {
            self.letters
        };
        // tar takes the letters of its first word without a dash.
        let is_bundle = at == 0 && self.names.contains(&"tar");
        let letters = text.strip_prefix('-').or(is_bundle.then_some(text));
        letters.is_some_and(|letters| letters.chars().any(|c| own.contains(c)))
    }
}

/// Short options of git that are commands, or settings that may be.
fn git_letters(verb: Option<&str>) -> &'static str {
    match verb {
        None => "c",
        Some("archive" | "diff" | "format-patch" | "log" | "show") => "o",
        Some("clone") => "cu",
        Some("grep") => "O",
        Some("rebase") => "x",
        Some(_) => "",
    }
}
