//! Limits the number and nesting of modules and components in a component, before it is compiled.
//!
//! The engine's own limits cover types, functions and instances, but not nesting: a file of 300 KB
//! with ten thousand nested components takes 1.6 GB to compile. For files within the limits of this
//! module, the compiler's time and memory limits suffice.

use wasmparser::{Parser, Payload};

/// Maximum nesting of components. Toolchains produce two levels; composed components have a few
/// more levels.
const MAX_COMPONENT_NESTING_DEPTH: usize = 32;

/// Maximum number of modules and components. A Python component with its native libraries has about
/// fifty.
const MAX_MODULES_AND_COMPONENTS: usize = 1_000;

/// Checks the nesting of a component. The error describes the exceeded limit.
pub(super) fn check_component_nesting(bytes: &[u8]) -> Result<(), String> {
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
        if depth > MAX_COMPONENT_NESTING_DEPTH {
            return Err(format!(
                "the components are nested more than {MAX_COMPONENT_NESTING_DEPTH} levels deep"
            ));
        }
        if n_parts > MAX_MODULES_AND_COMPONENTS {
            return Err(format!(
                "the component contains more than {MAX_MODULES_AND_COMPONENTS} modules and components"
            ));
        }
    }
    Ok(())
}
