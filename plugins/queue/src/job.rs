//! Parses the file of a job into a turn order.

use std::fs;
use std::path::Path;

use rind_sdk::data;
use rind_sdk::turns::TurnOrder;

/// Maximum size of a job's file, in bytes.
pub(crate) const MAX_JOB_FILE_BYTES: u64 = 1 << 20;

/// Suffix of the names of files with results of jobs.
pub(crate) const RESULT_FILE_NAME_SUFFIX: &str = ".result.json";

/// Default settings of jobs. A job may lower the cost limit, but not raise it.
#[data]
#[derive(Default)]
pub(crate) struct QueueSettings {
    pub(crate) settle_seconds: u64,
    pub(crate) preset: String,
    pub(crate) model: String,
    pub(crate) max_cost_usd: Option<f64>,
}

/// Contents of a job in a JSON file.
#[data]
#[derive(Default)]
#[serde(deny_unknown_fields)]
struct JobFile {
    input: String,
    session: Option<String>,
    preset: Option<String>,
    model: Option<String>,
    max_cost_usd: Option<f64>,
}

/// Maximum length of a job's name in bytes, so that the name with an id is still a valid file name.
const MAX_JOB_NAME_BYTES: usize = 180;

/// Whether a file with this name is a job of the queue.
pub(crate) fn is_job_name(name: &str) -> bool {
    let is_job = name.ends_with(".md") || name.ends_with(".json");
    is_job
        && !name.starts_with('.')
        && !name.ends_with(RESULT_FILE_NAME_SUFFIX)
        && name.len() <= MAX_JOB_NAME_BYTES
}

/// Returns the name of a job without its extension.
pub(crate) fn job_stem(name: &str) -> &str {
    let stem = name.strip_suffix(".md").or(name.strip_suffix(".json"));
    stem.unwrap_or(name)
}

/// Parses the job in a file that was claimed under `id`. The error says why the file is not a job.
pub(crate) fn read_job(
    path: &Path,
    name: &str,
    id: &str,
    settings: &QueueSettings,
) -> Result<TurnOrder, String> {
    // The type is checked before the file is opened: opening a pipe would block.
    let metadata = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("a job is a file, and no link, pipe or folder".to_owned());
    }
    if metadata.len() > MAX_JOB_FILE_BYTES {
        return Err(format!(
            "the job has {} bytes, at most {MAX_JOB_FILE_BYTES} are read",
            metadata.len()
        ));
    }
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(text).map_err(|_| "the job is no UTF-8 text".to_owned())?;
    let job = match name.ends_with(".json") {
        true => rind_sdk::serde_json::from_str(&text).map_err(|error| error.to_string())?,
        false => JobFile {
            input: text,
            ..JobFile::default()
        },
    };
    if job.input.trim().is_empty() {
        return Err("the input of the job is empty".to_owned());
    }
    let or_else = |own: Option<String>, usual: &str| {
        own.or_else(|| Some(usual.to_owned()))
            .filter(|name| !name.is_empty())
    };
    let session = match &job.session {
        Some(name) => format!("s-{name}"),
        None => format!("job-{id}"),
    };
    let mut order = TurnOrder::new(job.input).in_session(session);
    order.preset = or_else(job.preset, &settings.preset);
    order.model = or_else(job.model, &settings.model);
    let limits = job.max_cost_usd.into_iter().chain(settings.max_cost_usd);
    order.max_cost_usd = limits.reduce(f64::min);
    Ok(order)
}
