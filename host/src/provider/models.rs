//! Reads the list of models that a server offers.

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::http::ModelApiConnectionPool;

/// Maximum number of models read from a list.
const MAX_LISTED_MODELS: usize = 10_000;

/// Maximum length of a model name, in bytes.
const MAX_MODEL_ID_BYTES: usize = 512;

/// Downloads the model list at `path` and returns the names. Anthropic and OpenAI-compatible
/// servers send the list in the field `data` with each name in `id`; Gemini sends it in `models`
/// with each name in `name`, and also whether a model generates text. `query` is the URL query that
/// asks for the longest possible list. The names come from a server and are untrusted.
pub(super) async fn list_models(
    http: &ModelApiConnectionPool,
    path: &str,
    query: &str,
    cancel: &CancellationToken,
) -> Result<Vec<String>, Error> {
    Ok(parse_model_names(
        &http.get_json_document(path, query, cancel).await?,
    ))
}

/// Returns the names of the models in a list, without those that cannot generate text.
fn parse_model_names(document: &Value) -> Vec<String> {
    let lists = ["data", "models"].map(|name| document.get(name).and_then(Value::as_array));
    let ids = lists.into_iter().flatten().flatten().filter_map(|model| {
        let name = model.get("id").or_else(|| model.get("name"))?.as_str()?;
        let methods = model
            .get("supportedGenerationMethods")
            .and_then(Value::as_array);
        let is_for_text = methods.is_none_or(|all| all.iter().any(|one| one == "generateContent"));
        is_for_text.then(|| name.trim_start_matches("models/"))
    });
    let ids = ids.filter(|id| !id.is_empty() && id.len() <= MAX_MODEL_ID_BYTES);
    let mut names: Vec<String> = ids.take(MAX_LISTED_MODELS).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_taken_from_the_list_and_everything_else_is_left() {
        let document = json!({"data": [
            {"id": "b"}, {"id": "a", "display_name": "A"}, {"id": "b"}, {"id": 1}, {}, "c", {"id": ""}, {"id": "x".repeat(600)}
        ]});
        assert_eq!(parse_model_names(&document), ["a", "b"]);
        for document in [json!({}), json!([]), json!({"data": {}}), json!(null)] {
            assert_eq!(parse_model_names(&document), [""; 0]);
        }
    }
}
