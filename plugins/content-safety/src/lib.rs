//! The last check of the output before it is shown: masks personal data, and holds back what the
//! operator does not want shown.

mod addresses;
mod deny;
mod edge;
mod mask;
mod numbers;
mod open;
mod settings;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod content_safety {
    use crate::settings::SafetySettings;
    use crate::{deny, mask};
    use rind_sdk::prelude::*;

    /// Masks personal data in the streamed text. Holds back text at the end that may become
    /// personal data with the text that follows, such as half a card number. If the settings have
    /// patterns that forbid the complete output, holds back everything until it is complete.
    #[hook]
    fn output_delta(delta: TextDelta) -> Result<DeltaOutcome, Error> {
        let settings = config::shared::<SafetySettings>()?;
        if settings.can_withhold_output() && !delta.is_last {
            return Ok(DeltaOutcome::default().keep(delta.text.len()));
        }
        if let Some(reason) = deny::find_denial_reason(&delta.text, &settings)? {
            return Ok(
                DeltaOutcome::stop(&reason).log(Level::Warn, format!("answer stopped: {reason}"))
            );
        }
        let whole = delta.before + &delta.text;
        let from = whole.len() - delta.text.len();
        let masked = mask::mask_streamed_text(&whole, from, delta.is_last, &settings);
        Ok(DeltaOutcome {
            text: masked.text,
            ..DeltaOutcome::default().keep(masked.kept)
        })
    }

    #[hook]
    fn pre_output(output: String) -> Result<OutputOutcome, Error> {
        let settings = config::shared::<SafetySettings>()?;
        if let Some(reason) = deny::find_denial_reason(&output, &settings)? {
            return Ok(OutputOutcome::block(&reason)
                .log(Level::Warn, format!("output held back: {reason}")));
        }
        let Some(masked) = mask::mask_text(&output, &settings) else {
            return Ok(OutputOutcome::default());
        };
        let counts: Vec<String> = masked
            .counts
            .iter()
            .map(|(kind, count)| format!("{count} {}", kind.placeholder()))
            .collect();
        Ok(OutputOutcome::replace(masked.text).log(Level::Info, counts.join(", ")))
    }
}
