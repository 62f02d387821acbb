//! Limits the number and nesting of modules and components in a component, before it is compiled.
//!
//! The engine's own limits count types, functions and instances, but not this: a file of 300 KB with ten thousand components
//! within one another takes 1.6 GB to compile. What is within these bounds is for the compiler's own limits.

use wasmparser::{Parser, Payload};

/// Maximum nesting of components. What toolchains write has two levels, composed components some more.
const MAX_DEPTH: usize = 32;

/// Maximum number of modules and components in all. A Python component with its native libraries has about fifty.
const MAX_PARTS: usize = 1_000;

/// Checks the nesting of a component; the error says what is wrong.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let (mut depth, mut n_parts) = (0_usize, 0_usize);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|e| e.to_string())? {
            Payload::Version { .. } => {
                depth += 1;
                n_parts += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!(
                "its components stand more than {MAX_DEPTH} deep in one another"
            ));
        }
        if n_parts > MAX_PARTS {
            return Err(format!(
                "it holds more than {MAX_PARTS} modules and components"
            ));
        }
    }
    Ok(())
}
