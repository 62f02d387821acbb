//! Programs that a shell command starts, found by the parser that the host uses for its own rules:
//! for hooks that check commands before they run.
//!
//! ```
//! use rind_sdk::shell;
//!
//! # rind_sdk::testing::answer_commands(|_| {
//! #     let words = ["rm", "-r", "build"].map(|word| Some(word.to_owned())).to_vec();
//! #     let program = shell::Program { words, is_altered: false, is_redirection: false };
//! #     shell::Reading { programs: vec![program], doubt: None }
//! # });
//! let reading = shell::read("cd /tmp && /bin/rm -r build");
//! let is_certain = reading.doubt.is_none();
//! let removes = reading.programs.iter().any(|program| program.name() == Some("rm"));
//! assert!(removes && is_certain);
//! ```

pub use crate::bindings::rind::plugin::shell::{Program, Reading};

/// Parses a command as `bash -c` would run it. Where [`Reading::doubt`] is set, the command may
/// start more programs than those listed.
#[must_use]
pub fn read(command: &str) -> Reading {
    #[cfg(target_family = "wasm")]
    return crate::bindings::rind::plugin::shell::read(command);
    #[cfg(not(target_family = "wasm"))]
    return crate::testing::read_command(command);
}

impl Program {
    /// Returns the base name of the program. `None` for a redirection to a file, and for a name
    /// that is unknown before the shell expands it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let path = self.words.first()?.as_deref()?;
        (!self.is_redirection).then(|| path.rsplit('/').next().unwrap_or(path))
    }

    /// Returns the words after the name; `None` for a word that is unknown before the shell expands
    /// it.
    pub fn arguments(&self) -> impl Iterator<Item = Option<&str>> {
        self.words.iter().skip(1).map(Option::as_deref)
    }
}
