//! Exports of a component, and the functions behind them in one instance.

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use super::bindings::exports::rind::plugin as wit;
use super::host::HostState;
use crate::point::catalog::for_each_point;

macro_rules! exports {
    ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
        /// Indices of each interface's functions in a component; `None` for interfaces that it does not export.
        #[derive(Clone)]
        pub(super) struct Indices {
            $(pub(super) $module: Option<wit::$module::GuestIndices>,)*
            pub(super) tools: Option<wit::tools::GuestIndices>,
            pub(super) implement: Option<wit::implement::GuestIndices>,
        }

        /// The functions of one instance.
        pub(super) struct Guests {
            $(pub(super) $module: Option<wit::$module::Guest>,)*
            pub(super) tools: Option<wit::tools::Guest>,
            pub(super) implement: Option<wit::implement::Guest>,
        }

        impl Indices {
            /// Probes one interface at a time. `exported` says which names the component has: an interface that is there
            /// and does not fit is an error.
            pub(super) fn probe(pre: &InstancePre<HostState>, exported: &dyn Fn(&str) -> bool) -> wasmtime::Result<Self> {
                // Nothing calls these here, but one that does not fit is refused when the plugin is loaded.
                if exported("loop") {
                    wit::loop_::GuestIndices::new(pre)?;
                }
                if exported("commands") {
                    wit::commands::GuestIndices::new(pre)?;
                }
                Ok(Self {
                    $($module: if exported($name) { Some(wit::$module::GuestIndices::new(pre)?) } else { None },)*
                    tools: if exported("tools") { Some(wit::tools::GuestIndices::new(pre)?) } else { None },
                    implement: if exported("implement") { Some(wit::implement::GuestIndices::new(pre)?) } else { None },
                })
            }

            /// Looks the functions up in a fresh instance, with their types checked.
            pub(super) fn load(&self, store: &mut Store<HostState>, instance: &Instance) -> wasmtime::Result<Guests> {
                Ok(Guests {
                    $($module: self.$module.as_ref().map(|indices| indices.load(&mut *store, instance)).transpose()?,)*
                    tools: self.tools.as_ref().map(|indices| indices.load(&mut *store, instance)).transpose()?,
                    implement: self.implement.as_ref().map(|indices| indices.load(&mut *store, instance)).transpose()?,
                })
            }
        }
    };
}
for_each_point!(exports);
