//! Comparison with the parser of the shell brush, which is maintained independently of this
//! project.

use brush_parser::ast::{
    Command as Parsed, CommandPrefixOrSuffixItem as Item, CompoundList, IoFileRedirectKind,
    IoFileRedirectTarget, IoRedirect, SimpleCommand, Word as Raw,
};
use brush_parser::word::{WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};
use rind_brush::tool::command::{Command, CommandPart, ShellWord};

/// Returns a description if brush finds a program or a written file that `command`, which the host
/// read from the same text, does not have.
pub(super) fn disagreement(command: &Command, text: &str) -> Option<String> {
    let options = ParserOptions::default();
    let program = Parser::new(text.as_bytes(), &options).parse_program();
    let Ok(program) = program else {
        return Some(format!("it does not parse: {program:?}"));
    };
    let mut seen = Seen::default();
    for list in &program.complete_commands {
        if let Err(why) = seen.list(list, &options) {
            return Some(why);
        }
    }
    let words = |part: &CommandPart| {
        let words = part.words().iter();
        let words = words.map(|word| match word {
            ShellWord::Literal(text) => Some(text.clone()),
            ShellWord::Any => None,
        });
        words.collect::<Vec<_>>()
    };
    // The parts of `command` also include programs that other programs start, so brush's programs
    // need only occur among them, in the same order.
    let mut parts = command.parts.iter().filter(|part| !part.is_redirection());
    let missing = seen.programs.iter().find(|program| {
        let program: Vec<_> = program.iter().cloned().map(Some).collect();
        !parts.any(|part| words(part) == program)
    });
    let mut files = command.parts.iter().filter(|part| part.is_redirection());
    let unwritten = seen.files.iter().find(|file| {
        let names = file.split('/').filter(|name| !matches!(*name, "" | "."));
        let root = if file.starts_with('/') { "/" } else { "" };
        let names: Vec<_> = names.collect();
        let file = vec![Some(format!("{root}{}", names.join("/")))];
        !files.any(|part| words(part) == file)
    });
    let missing = missing.map(|program| format!("it runs {program:?}"));
    missing.or_else(|| unwritten.map(|file| format!("it writes {file:?}")))
}

#[derive(Default)]
struct Seen {
    programs: Vec<Vec<String>>,
    files: Vec<String>,
}

impl Seen {
    fn list(&mut self, list: &CompoundList, options: &ParserOptions) -> Result<(), String> {
        for item in &list.0 {
            for (_, pipeline) in item.0.iter() {
                for command in &pipeline.seq {
                    match command {
                        Parsed::Simple(simple) => self.simple(simple, options)?,
                        other => return Err(format!("it has {other:?}")),
                    }
                }
            }
        }
        Ok(())
    }

    fn simple(&mut self, simple: &SimpleCommand, options: &ParserOptions) -> Result<(), String> {
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        let suffix = simple.suffix.iter().flat_map(|suffix| &suffix.0);
        let mut words = Vec::new();
        for item in prefix {
            self.item(item, &mut words, options)?;
        }
        if let Some(word) = &simple.word_or_name {
            words.push(literal(word, options)?);
        }
        for item in suffix {
            self.item(item, &mut words, options)?;
        }
        self.programs.push(words);
        Ok(())
    }

    fn item(
        &mut self,
        item: &Item,
        words: &mut Vec<String>,
        options: &ParserOptions,
    ) -> Result<(), String> {
        match item {
            Item::Word(word) | Item::AssignmentWord(_, word) => words.push(literal(word, options)?),
            Item::IoRedirect(IoRedirect::File(_, kind, target)) => match (kind, target) {
                (
                    IoFileRedirectKind::Write | IoFileRedirectKind::Append,
                    IoFileRedirectTarget::Filename(word),
                ) => {
                    let file = literal(word, options)?;
                    self.files.extend((file != "/dev/null").then_some(file));
                }
                (IoFileRedirectKind::Read, IoFileRedirectTarget::Filename(_))
                | (
                    IoFileRedirectKind::DuplicateOutput,
                    IoFileRedirectTarget::Fd(_) | IoFileRedirectTarget::Duplicate(_),
                ) => {}
                other => return Err(format!("it has {other:?}")),
            },
            other => return Err(format!("it has {other:?}")),
        }
        Ok(())
    }
}

/// Returns the text of a word without its quotes.
fn literal(word: &Raw, options: &ParserOptions) -> Result<String, String> {
    let pieces = brush_parser::word::parse(&word.value, options);
    let pieces = pieces.map_err(|error| format!("a word: {error:?}"))?;
    let mut text = String::new();
    join(&pieces, &mut text)?;
    Ok(text)
}

fn join(pieces: &[WordPieceWithSource], text: &mut String) -> Result<(), String> {
    for piece in pieces {
        match &piece.piece {
            WordPiece::Text(own) | WordPiece::SingleQuotedText(own) => text.push_str(own),
            WordPiece::DoubleQuotedSequence(pieces) => join(pieces, text)?,
            other => return Err(format!("a word has {other:?}")),
        }
    }
    Ok(())
}
