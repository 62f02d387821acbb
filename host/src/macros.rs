//! Macros that implement `Debug` and `Display` for many types of the host.

/// Implements `Debug` with the name of the type and selected values, for types with fields that
/// cannot or should not be printed.
macro_rules! impl_partial_debug {
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

/// Implements `Display` for an enum without data: writes the string that serde writes for the
/// variant.
macro_rules! display_as_in_json {
    ($type:ident) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    };
}
