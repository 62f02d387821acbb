//! Jobs (NIP-90): from a request to the order of a turn, and from its end to the events of the answer.

use rind_sdk::data;
use rind_sdk::turns::TurnOrder;
use rind_sdk::types::Error;

use crate::event::{NostrEvent, Signer};

/// Largest input of a job, in bytes.
const MAX_INPUT_BYTES: usize = 64 << 10;

/// Kind of feedback.
const FEEDBACK: u32 = 7000;

/// Difference between the kinds of a request and its result.
const RESULT: u32 = 1000;

/// Settings of the plugin.
#[data]
#[derive(Default)]
pub(crate) struct DvmSettings {
    pub(crate) relays: Vec<String>,
    pub(crate) kinds: Vec<u32>,
    pub(crate) customers: Vec<String>,
    pub(crate) preset: String,
    pub(crate) model: String,
    pub(crate) max_cost_usd: Option<f64>,
    pub(crate) jobs_per_hour: u32,
}

/// Whether a request is for this plugin: of one of its kinds, of a customer, and for nobody else.
pub(crate) fn is_for_me(event: &NostrEvent, settings: &DvmSettings, pubkey: &str) -> bool {
    let providers: Vec<_> = event.tags_of("p").filter_map(<[_]>::first).collect();
    settings.kinds.contains(&event.kind)
        && (settings.customers.is_empty() || settings.customers.contains(&event.pubkey))
        && (providers.is_empty() || providers.iter().any(|own| *own == pubkey))
}

/// Returns the input of a job. The error is for the customer.
pub(crate) fn input_of(event: &NostrEvent) -> Result<String, String> {
    if event.tag("encrypted").is_some() {
        return Err("encrypted requests are not supported".to_owned());
    }
    if event.tag("bid").is_some() || event.tag("amount").is_some() {
        return Err("payment-required: payments are not supported; ask without a bid".to_owned());
    }
    let mut inputs = Vec::new();
    for tag in event.tags_of("i") {
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
    if input.len() > MAX_INPUT_BYTES {
        return Err(format!(
            "the input has {} bytes, at most {MAX_INPUT_BYTES} are read",
            input.len()
        ));
    }
    Ok(input)
}

/// Returns the order of the turn of a job.
pub(crate) fn order_of(input: String, id: &str, settings: &DvmSettings) -> TurnOrder {
    let named = |name: &String| (!name.is_empty()).then(|| name.clone());
    let short = id.get(..32).unwrap_or(id);
    let mut order = TurnOrder::new(input).in_session(format!("job-{short}"));
    order.preset = named(&settings.preset);
    order.model = named(&settings.model);
    // A limit applies only to a model with a price, so 0 means that there is none.
    order.max_cost_usd = settings.max_cost_usd.filter(|usd| *usd > 0.0);
    order
}

fn tag(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// Makes the feedback on a job.
pub(crate) fn feedback(
    signer: &Signer,
    job: &NostrEvent,
    status: &str,
    more: &str,
    now: u64,
) -> Result<NostrEvent, Error> {
    let tags = vec![
        tag(&["status", status, more]),
        tag(&["e", &job.id]),
        tag(&["p", &job.pubkey]),
    ];
    signer.sign(FEEDBACK, tags, String::new(), now)
}

/// Makes the result of a job.
pub(crate) fn result(
    signer: &Signer,
    job: &NostrEvent,
    answer: String,
    now: u64,
) -> Result<NostrEvent, Error> {
    let inputs = job.tags.iter();
    let inputs = inputs.filter(|tag| tag.first().is_some_and(|name| name == "i"));
    let mut tags = vec![
        tag(&["request", &job.to_json()]),
        tag(&["e", &job.id]),
        tag(&["p", &job.pubkey]),
    ];
    tags.extend(inputs.cloned());
    signer.sign(job.kind.saturating_add(RESULT), tags, answer, now)
}
