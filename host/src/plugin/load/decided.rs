//! A plugin with the decision about each requested permission. A decision may still be open until
//! the operator answers, and a permission without which the plugin cannot run may be denied.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::listed::PluginWithListedTools;
use crate::config::PluginSettings;
use crate::grant::decide::GrantDecision;
use crate::grant::{Capability, GrantRequest, GrantedCapabilities};
use crate::plugin::manifest::HookOptions;
use crate::plugin::open::{find_hook_settings, max_hook_deadline};
use crate::point::catalog;
use crate::point::dispatch::ExtensionPointKind;
use crate::point::failure::OnFailure;
use crate::point::registry::{DEFAULT_HOOK_PRIORITY, HookSpec};

/// Plugin with the decisions on its permissions, before it gets access to resources.
pub struct PluginWithPermissionDecision {
    listed: PluginWithListedTools,
    /// Permissions that the plugin requests.
    pub request: GrantRequest,
    /// Decision on the permissions in `request`.
    pub decision: GrantDecision,
    /// Location of the policy's rule that mutes the plugin: its questions to the user are not
    /// shown. `None` if no rule mutes it.
    pub muted_by: Option<String>,
    /// Whether a policy requires this plugin to run before any session starts.
    pub(in crate::plugin) is_required: bool,
}

impl_partial_debug!(
    PluginWithPermissionDecision,
    self,
    name = self.manifest.name,
    trust = self.trust
);

impl Deref for PluginWithPermissionDecision {
    type Target = PluginWithListedTools;

    fn deref(&self) -> &PluginWithListedTools {
        &self.listed
    }
}

impl PluginWithPermissionDecision {
    /// Combines a plugin with the decisions on its permissions.
    pub(in crate::plugin) fn new(
        listed: PluginWithListedTools,
        request: GrantRequest,
        decision: GrantDecision,
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
    /// `plugin`. The order of precedence is: settings for the hook, settings for the plugin, the
    /// manifest, the defaults. The operator can only lower a deadline; the manifest can raise the
    /// deadline of a hook that may wait for a model.
    pub(in crate::plugin) fn build_hook_spec(
        &self,
        (point, kind): (&str, ExtensionPointKind),
        options: &HookOptions,
        plugin: &PluginSettings,
        granted: &GrantedCapabilities,
    ) -> HookSpec {
        let hook = find_hook_settings(plugin, point);
        let ceiling = max_hook_deadline(options, granted.may_hooks_call_model_or_subagents());
        let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
        let operator = seconds(hook.timeout_seconds.or(plugin.timeout_seconds));
        let wanted = [operator, options.timeout, self.manifest.limits.timeout];
        let priority = hook.priority.or(plugin.priority).or(options.priority);
        let on_failure = hook.on_failure.or(plugin.on_failure).or(options.on_failure);
        // Each hook of a required plugin blocks when it fails, regardless of settings.
        let on_failure = on_failure.filter(|_| !self.is_required);
        let by_default = match self.is_required {
            true => OnFailure::Block,
            false => match catalog::find_builtin_extension_point(point) {
                Some(row) => row.default_failure_action(),
                None => kind.default_failure_action(),
            },
        };
        HookSpec {
            plugin: Arc::from(self.manifest.name.as_str()),
            point: point.to_owned(),
            priority: priority.unwrap_or(DEFAULT_HOOK_PRIORITY),
            deadline: wanted.into_iter().flatten().fold(ceiling, Duration::min),
            on_failure: on_failure.unwrap_or(by_default),
            is_async: options.is_async,
            may_change: granted.has_capability(&Capability::Session),
            may: options.may.clone(),
            only_tools: self.hook_tool_filter(options),
            only_final: options.only_final,
            only_over: self.tool_result_threshold_bytes(options),
        }
    }
}
