//! Models that a provider offers.

use super::{BOLD, DIM, answer_line, count, note, one_line, styled, warn};
use crate::models::Models;

/// Longest name of a model that is shown, in characters.
const WIDTH: usize = 120;

pub(in super::super) fn list(found: &Models, why: &str) {
    for model in &found.models {
        let name = one_line(&model.name, WIDTH);
        let name = match model.name == found.chosen {
            true => styled(BOLD, name),
            false => name,
        };
        let price = model
            .price
            .map(|(input, output)| format!("${input} in, ${output} out for a million tokens"));
        let window = model.window.map(|tokens| format!("{tokens} tokens"));
        let about: Vec<String> = window.into_iter().chain(price).collect();
        answer_line(format_args!("{name}  {}", styled(DIM, about.join(", "))));
    }
    let provider = &found.provider;
    if found.models.is_empty() {
        note(&format!("{provider} lists no models ({why})"));
        return;
    }
    if !found.models.iter().any(|model| model.name == found.chosen) {
        warn(&format!(
            "{provider} does not list {}, which a session would ask",
            found.chosen
        ));
    }
    let n = count(found.models.len() as u64, "model");
    note(&format!(
        "{n} of {provider} ({why}); choose one with --model or `model` in [provider]"
    ));
}
