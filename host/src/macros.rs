//! Macros for trait impls that many types of the host share.

/// Implements `Debug` with the name of the type and selected values, for types with fields that
/// cannot or should not be printed.
macro_rules! debug_some {
    ($type:ident, $self:ident $(, $name:ident = $value:expr)*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($name), &$value))*
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Implements `Display` for an enum of names, with the same text as in JSON.
macro_rules! display_as_in_json {
    ($type:ident) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    };
}
