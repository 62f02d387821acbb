//! A plugin with the decision about each requested permission. The plugin may still wait for an
//! answer of the operator, or lack a permission without which it cannot run.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::listed::ListedPlugin;
use crate::config::PluginSettings;
use crate::grant::decide::Decision;
use crate::grant::{Capability, Granted, Request};
use crate::plugin::manifest::HookOptions;
use crate::plugin::open::{ceiling, settings_for};
use crate::point::catalog;
use crate::point::dispatch::PointKind;
use crate::point::failure::OnFailure;
use crate::point::registry::{DEFAULT_PRIORITY, HookSpec};

/// Plugin with the decision on its permissions. It has no resources yet.
pub struct DecidedPlugin {
    listed: ListedPlugin,
    /// Requested permissions.
    pub request: Request,
    /// Decision on the request.
    pub decision: Decision,
    /// Location in the policy that mutes the plugin, so that its questions are not shown; `None` if
    /// it is not muted.
    pub muted_by: Option<String>,
    /// Whether a policy requires this plugin to run before any session starts.
    pub(in crate::plugin) is_required: bool,
}

debug_some!(
    DecidedPlugin,
    self,
    name = self.manifest.name,
    trust = self.trust
);

impl Deref for DecidedPlugin {
    type Target = ListedPlugin;

    fn deref(&self) -> &ListedPlugin {
        &self.listed
    }
}

impl DecidedPlugin {
    /// Adds the operator's decision to a plugin.
    pub(in crate::plugin) fn new(
        listed: ListedPlugin,
        request: Request,
        decision: Decision,
        muted_by: Option<String>,
        is_required: bool,
    ) -> Self {
        Self {
            listed,
            request,
            decision,
            muted_by,
            is_required,
        }
    }

    /// Describes a hook of the plugin with the permissions `granted` and the operator's settings
    /// `plugin`. Settings for the hook take precedence over those for the plugin, those over the
    /// manifest, and that over the defaults. The operator can only lower a deadline; the manifest
    /// can raise the deadline of a hook that may wait for a model.
    pub(in crate::plugin) fn spec_with(
        &self,
        (point, kind): (&str, PointKind),
        options: &HookOptions,
        plugin: &PluginSettings,
        granted: &Granted,
    ) -> HookSpec {
        let hook = settings_for(plugin, point);
        let ceiling = ceiling(options, granted.has_external_call());
        let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
        let operator = seconds(hook.timeout_seconds.or(plugin.timeout_seconds));
        let wanted = [operator, options.timeout, self.manifest.limits.timeout];
        let priority = hook.priority.or(plugin.priority).or(options.priority);
        let on_failure = hook.on_failure.or(plugin.on_failure).or(options.on_failure);
        // Each hook of a required plugin blocks when it fails, regardless of settings.
        let on_failure = on_failure.filter(|_| !self.is_required);
        let by_default = match self.is_required {
            true => OnFailure::Block,
            false => match catalog::find(point) {
                Some(row) => row.default_on_failure(),
                None => kind.default_on_failure(),
            },
        };
        HookSpec {
            plugin: Arc::from(self.manifest.name.as_str()),
            point: point.to_owned(),
            priority: priority.unwrap_or(DEFAULT_PRIORITY),
            deadline: wanted.into_iter().flatten().fold(ceiling, Duration::min),
            on_failure: on_failure.unwrap_or(by_default),
            is_async: options.is_async,
            may_change: granted.has(&Capability::Session),
            may: options.may.clone(),
            only_tools: self.only_tools(options),
            only_final: options.only_final,
            only_over: self.only_over(options),
        }
    }
}
