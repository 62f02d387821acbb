//! Impls that types of the host write alike.

/// Implements `Debug` with the name of a type and some values: for one that holds what cannot be shown, or what says nothing.
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

/// Implements `Display` for an enum of names: each as it is in JSON.
macro_rules! display_as_in_json {
    ($type:ident) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    };
}
