//! Decides on the permissions of a plugin. From the request, trust, policy, flags and answers it
//! computes a row for each capability, with the decision and its reason. It is a pure function.
//!
//! A denial by policy is final. Flags and answers can only grant permissions for which the ruling
//! is "ask". Start from [`decide_grant`].

use serde::Serialize;

use super::answers::GrantAnswerStore;
use super::pattern::CapabilityPattern;
use super::policy::{CapabilityPolicy, RequestingPlugin};
use super::table::{CapabilityRuling, default_capability_ruling};
use super::{Capability, GrantRequest, GrantedCapabilities};

/// Status of one capability that a plugin requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantStatus {
    /// The plugin may use the capability.
    Granted,
    /// The operator must be asked about the capability; the plugin does not run before the answer.
    Waiting,
    /// The capability is refused. The plugin runs without it, if it can.
    Denied,
}

/// Decision on one capability that a plugin requested.
#[derive(Clone, Debug, PartialEq)]
pub struct CapabilityDecision {
    /// Capability that the plugin requested.
    pub capability: Capability,
    /// Ruling of the default table for the plugin's trust, before policy, flags and answers.
    pub ceiling: CapabilityRuling,
    /// Status of the capability according to the decision.
    pub standing: GrantStatus,
    /// Reason for the status, for display.
    pub why: String,
}

/// Decision on all capabilities that a plugin requested.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GrantDecision {
    /// Decisions on the requested capabilities, in the order of the request.
    pub rows: Vec<CapabilityDecision>,
    /// Reason why the policy's lists for the name of this plugin do not apply to it; `None` if no
    /// permission is pending because of that.
    pub passed_over: Option<String>,
}

/// `--grant NAME` or `--grant NAME=CAPABILITY,…`: the operator grants permissions for this run.
#[derive(Clone, Debug)]
pub struct GrantFlagValue {
    plugin: String,
    /// Capabilities that the flag grants; empty grants all that the plugin requests.
    capabilities: Vec<CapabilityPattern>,
}

impl std::str::FromStr for GrantFlagValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(2, '=');
        let plugin = parts.next().unwrap_or_default();
        if plugin.is_empty() {
            return Err(format!(
                "`{text}` is not of the form NAME or NAME=CAPABILITY,…"
            ));
        }
        let capabilities = parts.flat_map(|list| list.split(',')).map(str::trim);
        let capabilities: Result<Vec<CapabilityPattern>, String> =
            capabilities.map(str::parse).collect();
        Ok(Self {
            plugin: plugin.to_owned(),
            capabilities: capabilities?,
        })
    }
}

impl GrantFlagValue {
    /// Name of the plugin to which the flag grants permissions.
    #[must_use]
    pub fn plugin_name(&self) -> &str {
        &self.plugin
    }

    /// Returns the first pattern of the flag that has no effect, because the plugin does not
    /// request such a capability or it is denied.
    #[must_use]
    pub fn first_unused_pattern(&self, decision: &GrantDecision) -> Option<&CapabilityPattern> {
        let rows = &decision.rows;
        let gives = |pattern: &CapabilityPattern| {
            rows.iter()
                .any(|row| row.standing != GrantStatus::Denied && pattern.covers(&row.capability))
        };
        self.capabilities.iter().find(|pattern| !gives(pattern))
    }

    /// Returns the capabilities that the flag names, as the operator wrote them.
    pub fn capability_pattern_texts(&self) -> impl Iterator<Item = &str> {
        self.capabilities.iter().map(CapabilityPattern::text)
    }

    /// Whether the flag names no capabilities and therefore grants all.
    #[must_use]
    pub fn grants_all_capabilities(&self) -> bool {
        self.capabilities.is_empty()
    }

    /// Whether the flag grants this capability to the plugin of this name.
    #[must_use]
    pub fn grants_capability_to_plugin(&self, plugin: &str, wanted: &Capability) -> bool {
        self.plugin == plugin
            && (self.capabilities.is_empty()
                || self.capabilities.iter().any(|own| own.covers(wanted)))
    }
}

/// Inputs of a decision on permissions, other than the plugin's request.
#[derive(Clone, Copy, Debug)]
pub struct GrantDecisionInputs<'a> {
    /// Policy of the operator on the capabilities of plugins.
    pub policy: &'a CapabilityPolicy,
    /// Earlier answers of the operator about permissions; `None` if none are remembered.
    pub answers: Option<&'a GrantAnswerStore>,
    /// Id of a resumed session; `None` for a new one.
    pub session: Option<&'a str>,
    /// Flags with which the command line grants permissions to plugins.
    pub flags: &'a [GrantFlagValue],
}

/// Decides on a request. The ruling on each capability comes from the policy, or from the default
/// table for the plugin's trust if the policy does not mention the capability. If the ruling is
/// "ask", a flag or a stored answer grants the capability; otherwise it stays pending. A denial by
/// policy cannot be overridden.
#[must_use]
pub fn decide_grant(request: &GrantRequest, known: GrantDecisionInputs<'_>) -> GrantDecision {
    let answer = known
        .answers
        .and_then(|answers| answers.find(request, known.session));
    let content = request.compute_content_digest();
    let asker = RequestingPlugin {
        plugin: &request.plugin,
        trust: request.trust,
        content: &content,
    };
    let passed_over = known.policy.reason_plugin_entry_does_not_apply(asker);
    let rows = request.capabilities.iter().map(|capability| {
        let ceiling = default_capability_ruling(request.trust, capability);
        let (ruling, place) = known
            .policy
            .find_capability_ruling(asker, capability)
            .unwrap_or_else(|| {
                (
                    ceiling,
                    format!("the default for {} plugins", request.trust),
                )
            });
        let is_flagged = || {
            known
                .flags
                .iter()
                .any(|f| f.grants_capability_to_plugin(&request.plugin, capability))
        };
        let (standing, why) = match (ruling, answer.filter(|a| a.grants_capability(capability))) {
            (CapabilityRuling::Deny, _) => (GrantStatus::Denied, format!("denied: {place}")),
            (CapabilityRuling::Allow, _) => (GrantStatus::Granted, format!("allowed: {place}")),
            (CapabilityRuling::Ask, _) if is_flagged() => {
                let why = "given with --grant for this run".to_owned();
                (GrantStatus::Granted, why)
            }
            (CapabilityRuling::Ask, Some(answer)) => {
                let why = format!("granted on {}", date_part_of_timestamp(&answer.given));
                (GrantStatus::Granted, why)
            }
            (CapabilityRuling::Ask, None) => {
                let but = passed_over.iter().map(|text| format!("; {text}"));
                let but: String = but.collect();
                (GrantStatus::Waiting, format!("not granted: {place}{but}"))
            }
        };
        CapabilityDecision {
            capability: capability.clone(),
            ceiling,
            standing,
            why,
        }
    });
    let rows: Vec<CapabilityDecision> = rows.collect();
    let is_waiting = rows.iter().any(|row| row.standing == GrantStatus::Waiting);
    GrantDecision {
        rows,
        passed_over: passed_over.filter(|_| is_waiting),
    }
}

fn date_part_of_timestamp(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

impl GrantDecision {
    /// Returns the capabilities that the decision grants.
    #[must_use]
    pub fn granted_capabilities(&self) -> GrantedCapabilities {
        GrantedCapabilities::new(
            self.capabilities_with_status(GrantStatus::Granted)
                .cloned()
                .collect(),
        )
    }

    /// Returns the capabilities to which the decision gives this status.
    pub fn capabilities_with_status(
        &self,
        standing: GrantStatus,
    ) -> impl Iterator<Item = &Capability> {
        self.rows
            .iter()
            .filter(move |row| row.standing == standing)
            .map(|row| &row.capability)
    }

    /// Whether the operator must be asked about at least one capability.
    #[must_use]
    pub fn needs_operator_answer(&self) -> bool {
        self.capabilities_with_status(GrantStatus::Waiting)
            .next()
            .is_some()
    }

    /// Returns the permissions that are granted, and those about which the operator must still be
    /// asked.
    #[must_use]
    pub fn granted_or_pending_capabilities(&self) -> GrantedCapabilities {
        let rows = self.rows.iter();
        let expected = rows.filter(|row| row.standing != GrantStatus::Denied);
        GrantedCapabilities::new(expected.map(|row| row.capability.clone()).collect())
    }

    /// Restricts the decision to the capabilities in `granted`, in their text form. A pending
    /// capability that is in `granted` becomes granted; a denied one stays denied; a capability
    /// that is not in `granted` becomes denied.
    #[must_use]
    pub fn restrict_to_capabilities(mut self, granted: &[String]) -> Self {
        for row in &mut self.rows {
            let is_among = granted.contains(&row.capability.to_string());
            match (row.standing, is_among) {
                (GrantStatus::Waiting, true) => {
                    row.standing = GrantStatus::Granted;
                    "granted by the signed set of plugins".clone_into(&mut row.why);
                }
                (GrantStatus::Waiting | GrantStatus::Granted, false) => {
                    row.standing = GrantStatus::Denied;
                    "the signed set of plugins does not grant it".clone_into(&mut row.why);
                }
                (GrantStatus::Denied, _) | (GrantStatus::Granted, true) => {}
            }
        }
        self
    }

    /// Grants all capabilities that are still undecided, with this reason.
    #[must_use]
    pub fn grant_pending_capabilities(mut self, why: &str) -> Self {
        for row in &mut self.rows {
            if row.standing == GrantStatus::Waiting {
                row.standing = GrantStatus::Granted;
                why.clone_into(&mut row.why);
            }
        }
        self
    }
}
