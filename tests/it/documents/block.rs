//! Fenced blocks of a Markdown document.

/// One fenced block.
pub(super) struct Block {
    /// Path of the document.
    pub(super) document: String,
    /// Line of the opening fence, from 1.
    line: usize,
    /// Language and marks that follow the opening fence.
    pub(super) info: String,
    /// The lines between the fences.
    pub(super) text: String,
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.document, self.line)
    }
}

impl Block {
    /// Reads the blocks of a document.
    pub(super) fn all(document: &str, text: &str) -> Vec<Self> {
        let mut blocks = Vec::new();
        let mut open: Option<Self> = None;
        for (at, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), open.as_mut()) {
                (Some(info), None) => {
                    open = Some(Self {
                        document: document.to_owned(),
                        line: at + 1,
                        info: info.to_owned(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.text += &format!("{line}\n"),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{document}: a block has no end");
        blocks
    }

    /// File that a `toml` block shows: its first line is a comment that begins with the name.
    pub(super) fn file(&self) -> Option<&str> {
        let first = self.text.lines().next().filter(|_| self.info == "toml")?;
        first.strip_prefix("# ")?.split([' ', ':']).next()
    }

    /// Commands of the block with their line numbers. A comment after a command is left to the
    /// shell.
    pub(super) fn commands(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.filter_map(|(at, line)| Some((self.line + 1 + at, line.strip_prefix("$ ")?)))
    }
}

#[test]
fn blocks_have_their_lines_files_and_commands() {
    let text = "a\n```toml\n# plugin.toml: part of it\nx = 1\n```\n```console\n$ ls  # b\nout\n$ pwd\n```\n";
    let blocks = Block::all("A.md", text);
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].to_string(), "A.md:2");
    assert_eq!(blocks[0].file(), Some("plugin.toml"));
    let commands: Vec<_> = blocks[1].commands().collect();
    assert_eq!(commands, [(7, "ls  # b"), (9, "pwd")]);
}
