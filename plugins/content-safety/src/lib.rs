//! The last look at the output: masks personal data, and holds back what the operator does not want shown.

mod addresses;
mod deny;
mod edge;
mod mask;
mod numbers;
mod settings;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod content_safety {
    use crate::settings::Settings;
    use crate::{deny, mask};
    use rind_sdk::prelude::*;

    #[hook]
    fn pre_output(output: String) -> Result<OutputOutcome, Error> {
        let settings: Settings = config::all()?;
        if let Some(reason) = deny::reason(&output, &settings)? {
            return Ok(OutputOutcome::block(&reason)
                .log(Level::Warn, format!("output held back: {reason}")));
        }
        let Some(masked) = mask::mask(&output, &settings) else {
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
