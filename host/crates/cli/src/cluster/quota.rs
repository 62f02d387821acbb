//! `rind cluster quota`: sets and shows the quotas of a tenant.

use clap::Args as ClapArgs;
use rind_nats::worker::ClusterStatus;
use rind_nats::{QuotaReport, TenantQuotaClient, TenantQuotaLimits};

use super::super::exit_code::bail_usage;
use super::super::render;
use super::args::NatsArgs;

/// Arguments of `rind cluster quota`. Without limits the command shows those in force.
#[derive(Debug, ClapArgs)]
pub(crate) struct QuotaArgs {
    #[command(flatten)]
    nats: NatsArgs,
    /// Sessions that may begin in a day (UTC)
    #[arg(long, value_name = "N")]
    sessions: Option<u64>,
    /// Turns that may begin in a minute, and inputs that may be sent in one
    #[arg(long, value_name = "N")]
    turns: Option<u64>,
    /// Tokens that turns may use in a day
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// US dollars that turns may cost in a day, as far as prices are known
    #[arg(long, value_name = "USD")]
    cost: Option<f64>,
    /// Remove all quotas
    #[arg(long, conflicts_with_all = ["sessions", "turns", "tokens", "cost"])]
    none: bool,
}

impl QuotaArgs {
    /// Sets the limits that the command line names, if any, then shows the limits in force.
    ///
    /// # Errors
    /// The servers do not answer, or a limit is not a valid number.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (sessions, _) = self.nats.connect_with_session_inbox().await?;
        let quotas = TenantQuotaClient::from_sessions(&sessions);
        let limits = TenantQuotaLimits {
            sessions_a_day: self.sessions,
            turns_a_minute: self.turns,
            tokens_a_day: self.tokens,
            usd_a_day: self.cost,
        };
        let is_declared = limits != TenantQuotaLimits::default();
        if limits
            .usd_a_day
            .is_some_and(|usd| !usd.is_finite() || usd < 0.0)
        {
            bail_usage!("--cost takes a number of US dollars of at least 0");
        }
        if is_declared || self.none {
            quotas.declare_limits(limits).await?;
        }
        match quotas.read_quota_report().await? {
            Some(report) => format_quota_lines(&report)
                .iter()
                .for_each(render::print_stdout_line),
            None => render::print_stdout_line("the tenant has no quotas"),
        }
        Ok(())
    }
}

/// Prints the quotas of the tenant, if it has any.
pub(super) fn print_quotas(status: &ClusterStatus) {
    if let Some(report) = &status.quotas {
        format_quota_lines(report)
            .iter()
            .for_each(render::print_stdout_line);
    }
    if let Some(fault) = &status.quota_fault {
        render::print_warning(fault);
    }
}

fn format_quota_lines(report: &QuotaReport) -> Vec<String> {
    let (limits, used) = (&report.limits, &report.used);
    let counted = [
        ("sessions a day", used.sessions, limits.sessions_a_day),
        ("turns a minute", used.turns, limits.turns_a_minute),
        ("inputs a minute", used.inputs, limits.turns_a_minute),
        ("tokens a day", used.tokens, limits.tokens_a_day),
    ];
    let counted = counted.into_iter();
    let mut lines: Vec<String> = counted
        .filter_map(|(what, used, limit)| Some(format!("quota of {what}: {used} of {}", limit?)))
        .collect();
    if let Some(limit) = limits.usd_a_day {
        lines.push(format!(
            "quota of US dollars a day: {} of {limit}",
            used.daily_cost_usd()
        ));
    }
    lines
}
