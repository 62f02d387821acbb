//! Prints the models that a provider offers.

use super::{
    BOLD_STYLE, DIM_STYLE, format_count_with_noun, print_note, print_stdout_line, print_warning,
    style_text, truncate_to_one_line,
};
use crate::models::ModelListing;

/// Maximum number of characters of a model name that are shown.
const MAX_MODEL_NAME_CHARS: usize = 120;

pub(in super::super) fn print_models(found: &ModelListing, why: &str) {
    for model in &found.models {
        let name = truncate_to_one_line(&model.name, MAX_MODEL_NAME_CHARS);
        let name = match model.name == found.chosen {
            true => style_text(BOLD_STYLE, name),
            false => name,
        };
        let price = model
            .price
            .map(|(input, output)| format!("${input} in, ${output} out for a million tokens"));
        let window = model.window.map(|tokens| format!("{tokens} tokens"));
        let about: Vec<String> = window.into_iter().chain(price).collect();
        print_stdout_line(format_args!(
            "{name}  {}",
            style_text(DIM_STYLE, about.join(", "))
        ));
    }
    let provider = &found.provider;
    if found.models.is_empty() {
        print_note(&format!("{provider} lists no models ({why})"));
        return;
    }
    if !found.models.iter().any(|model| model.name == found.chosen) {
        print_warning(&format!(
            "{provider} does not list {}, the model of new sessions",
            found.chosen
        ));
    }
    let n = format_count_with_noun(found.models.len() as u64, "model");
    print_note(&format!(
        "{provider} lists {n} ({why}); choose one with --model or `model` in [provider]"
    ));
}
