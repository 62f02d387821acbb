//! Translates the request of a job (NIP-90) into a turn order, and the result of the turn into the
//! events of the answer.

use rind_sdk::data;
use rind_sdk::turns::TurnOrder;
use rind_sdk::types::Error;

use crate::event::{NostrEvent, NostrEventSigningKey};

/// Maximum size of the input of a job, in bytes.
const MAX_JOB_INPUT_BYTES: usize = 64 << 10;

/// Kind of the Nostr event that reports the status of a job to its customer (NIP-90).
const FEEDBACK_EVENT_KIND: u32 = 7000;

/// Difference between the kind of a result and the kind of its request (NIP-90).
const RESULT_EVENT_KIND_OFFSET: u32 = 1000;

/// Settings of the plugin: relays, kinds and customers of jobs, and limits.
#[data]
#[derive(Default)]
pub(crate) struct NostrJobSettings {
    pub(crate) relays: Vec<String>,
    pub(crate) kinds: Vec<u32>,
    pub(crate) customers: Vec<String>,
    pub(crate) preset: String,
    pub(crate) model: String,
    pub(crate) max_cost_usd: Option<f64>,
    pub(crate) jobs_per_hour: u32,
}

/// Whether the plugin accepts a request: its kind is configured, its author is a customer or no
/// customers are listed, and it names no provider or this one.
pub(crate) fn accepts_request(
    event: &NostrEvent,
    settings: &NostrJobSettings,
    pubkey: &str,
) -> bool {
    let providers: Vec<_> = event.tags_with_name("p").filter_map(<[_]>::first).collect();
    settings.kinds.contains(&event.kind)
        && (settings.customers.is_empty() || settings.customers.contains(&event.pubkey))
        && (providers.is_empty() || providers.iter().any(|own| *own == pubkey))
}

/// Returns the input of a job. The error text is sent to the customer, who requested the job.
pub(crate) fn extract_job_input(event: &NostrEvent) -> Result<String, String> {
    if event.first_tag_with_name("encrypted").is_some() {
        return Err("encrypted requests are not supported".to_owned());
    }
    if event.first_tag_with_name("bid").is_some() || event.first_tag_with_name("amount").is_some() {
        return Err("payment-required: payments are not supported; ask without a bid".to_owned());
    }
    let mut inputs = Vec::new();
    for tag in event.tags_with_name("i") {
        match tag {
            [text] => inputs.push(text.as_str()),
            [text, kind, ..] if kind == "text" => inputs.push(text.as_str()),
            [_, kind, ..] => {
                let kind: String = kind.chars().take(20).collect();
                return Err(format!(
                    "inputs of type `{kind}` are not supported, only `text`"
                ));
            }
            [] => {}
        }
    }
    let input = inputs.join("\n\n");
    if input.trim().is_empty() {
        return Err("the request has no input: a tag `i` of type `text`".to_owned());
    }
    if input.len() > MAX_JOB_INPUT_BYTES {
        return Err(format!(
            "the input has {} bytes, at most {MAX_JOB_INPUT_BYTES} are read",
            input.len()
        ));
    }
    Ok(input)
}

/// Creates the request to the host for the turn that runs a job.
pub(crate) fn create_turn_order_for_job(
    input: String,
    id: &str,
    settings: &NostrJobSettings,
) -> TurnOrder {
    let named = |name: &String| (!name.is_empty()).then(|| name.clone());
    let short = id.get(..32).unwrap_or(id);
    let mut order = TurnOrder::new(input).in_session(format!("job-{short}"));
    order.preset = named(&settings.preset);
    order.model = named(&settings.model);
    // In the settings, 0 means no limit.
    order.max_cost_usd = settings.max_cost_usd.filter(|usd| *usd > 0.0);
    order
}

fn create_nostr_tag(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// Creates a signed event that reports the status of a job to its customer.
pub(crate) fn feedback_event(
    signer: &NostrEventSigningKey,
    job: &NostrEvent,
    status: &str,
    more: &str,
    now: u64,
) -> Result<NostrEvent, Error> {
    let tags = vec![
        create_nostr_tag(&["status", status, more]),
        create_nostr_tag(&["e", &job.id]),
        create_nostr_tag(&["p", &job.pubkey]),
    ];
    signer.sign_event(FEEDBACK_EVENT_KIND, tags, String::new(), now)
}

/// Creates a signed event that sends the answer of a job to its customer.
pub(crate) fn result_event(
    signer: &NostrEventSigningKey,
    job: &NostrEvent,
    answer: String,
    now: u64,
) -> Result<NostrEvent, Error> {
    let inputs = job.tags.iter();
    let inputs = inputs.filter(|tag| tag.first().is_some_and(|name| name == "i"));
    let mut tags = vec![
        create_nostr_tag(&["request", &job.to_json()]),
        create_nostr_tag(&["e", &job.id]),
        create_nostr_tag(&["p", &job.pubkey]),
    ];
    tags.extend(inputs.cloned());
    signer.sign_event(
        job.kind.saturating_add(RESULT_EVENT_KIND_OFFSET),
        tags,
        answer,
        now,
    )
}
