//! Answers each new file of the folder `questions`.
#[rind_sdk::plugin]
mod replies {
    use rind_sdk::prelude::*;
    use rind_sdk::turns::TurnOrder;
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    const FOLDER: &str = "workspace/questions";

    #[run_loop]
    fn run() -> Result<LoopOutcome, Error> {
        files::create_folder(FOLDER)?;
        let until = WakeConditions::new().change_of(FOLDER);
        // The first wait for a folder ends at once: nothing is missed between looking and waiting.
        while !matches!(waiting::wait(&until)?, Wakeup::Shutdown) {
            let questions = files::list(FOLDER)?.into_iter();
            for file in questions.filter(|file| file.name.ends_with(".txt")) {
                let path = format!("{FOLDER}/{}", file.name);
                let order = TurnOrder::new(files::read_to_string(&path)?)
                    .in_session("replies")
                    .preset("investigate");
                let report = turns::run(&order)?;
                files::write(
                    &format!("{path}.{}", report.state),
                    report.answer.as_bytes(),
                )?;
                files::remove(&path)?;
            }
        }
        Ok(LoopOutcome::Done)
    }
}
