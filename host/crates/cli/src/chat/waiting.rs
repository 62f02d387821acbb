//! Sends typed texts: as the input of a new turn, or to the queue of the running turn.
//!
//! A text in the queue includes the output of `!` commands that the model has not seen yet. If the
//! text is moved back into the editor, the output is removed from it.

use super::super::attach;
use super::super::render::{DIM_STYLE, format_warning_line, style_text, truncate_to_one_line};
use super::super::resource::{
    McpResourceMention, TURN_RUNNING_REFUSAL_REASON, find_resource_mentions,
};
use super::editor::EditorPiece;
use super::live::LiveChat;
use super::worker::ChatTurnInput;
use rind_lib::agent::TurnOutcome;
use rind_lib::message::PromptImageAttachment;
use rind_lib::point::payload::{Source, StopReason};

pub(super) struct TypedChatInputText {
    pub(super) text: String,
    /// Text in which notes replace long pastes. Only its words can name images, because the person
    /// did not type a paste.
    noted: String,
    /// Typed and pasted pieces of the text, with which the text is restored in the editor.
    pieces: Vec<EditorPiece>,
    /// Output of `!` commands that is sent to the model before this text.
    untold: Vec<String>,
}

impl TypedChatInputText {
    fn full_text(&self) -> String {
        let parts = self.untold.iter().chain([&self.text]);
        parts.map(String::as_str).collect::<Vec<_>>().join("\n\n")
    }
}

impl LiveChat {
    /// Sends the text in the editor: as the input of a new turn, or to the running turn.
    pub(super) fn send_editor_text(&mut self, is_follow_up: bool) {
        let (text, noted) = (
            self.editor.full_text(),
            self.editor.text_with_paste_placeholders_shown(),
        );
        let pieces = self.editor.typed_and_pasted_pieces();
        if text.trim().is_empty() {
            return;
        }
        let Some(resources) = self.find_mentioned_resources(&noted, &text) else {
            return;
        };
        self.editor.clear_text();
        self.history.add_sent_text_pieces(&pieces);
        let untold = self.shell.take_output_unseen_by_model();
        let typed = TypedChatInputText {
            text,
            noted,
            pieces,
            untold,
        };
        let whole = typed.full_text();
        let is_running = self.worker.is_job_running();
        if !is_running {
            self.view.show_user_text(&typed.noted);
        }
        let images = self.load_mentioned_images(&typed.noted, &typed.text);
        if !is_running {
            self.resources.unsent = (!resources.is_empty()).then_some(typed);
            return self.start_turn_with_text(whole, images, resources);
        }
        let number = match is_follow_up {
            true => {
                let steering = &self.steering;
                steering.queue_follow_up_with_images(whole, Source::Terminal, images)
            }
            false => self
                .steering
                .steer_with_images(whole, Source::Terminal, images),
        };
        let waiting = self.steering.waiting_texts();
        self.waiting
            .retain(|known, _| waiting.iter().any(|waiting| waiting.number == *known));
        self.waiting.insert(number, typed);
    }

    fn start_turn_with_text(
        &mut self,
        text: String,
        images: Vec<PromptImageAttachment>,
        resources: Vec<McpResourceMention>,
    ) {
        self.interrupted = None;
        self.worker.start_turn(ChatTurnInput {
            text,
            command: None,
            images,
            resources,
        });
    }

    /// Finds the resources of MCP servers that a text names. If the text cannot be sent, prints the
    /// reason and returns `None`; the text then stays in the editor.
    fn find_mentioned_resources(
        &mut self,
        noted: &str,
        text: &str,
    ) -> Option<Vec<McpResourceMention>> {
        let servers = self.resources.server_names();
        let found = match find_resource_mentions(noted, &servers) {
            Ok(found) if found.is_empty() || !self.worker.is_job_running() => found,
            Ok(_) => {
                self.view
                    .add_finished_output_line(format_warning_line(&format!(
                        "not sent: {TURN_RUNNING_REFUSAL_REASON}"
                    )));
                return None;
            }
            Err(why) => {
                self.view
                    .add_finished_output_line(format_warning_line(&format!("not sent: {why}")));
                return None;
            }
        };
        let pasted = find_resource_mentions(text, &servers).unwrap_or_default();
        for mention in pasted.iter().filter(|own| !found.contains(own)) {
            let name = truncate_to_one_line(&format!("@{}:{}", mention.server, mention.uri), 200);
            let words = format!(
                "{name} is not fetched, because only pasted text names it; type the name to fetch it"
            );
            self.view
                .add_finished_output_line(style_text(DIM_STYLE, words));
        }
        Some(found)
    }

    /// Shows why the resources of a text could not be fetched, and moves the text, which was not
    /// sent, back into the editor.
    pub(super) fn return_unsent_text_to_editor(&mut self, why: &str) {
        self.view
            .add_finished_output_line(format_warning_line(&format!("not sent: {why}")));
        self.return_waiting_texts_to_editor();
        if let Some(typed) = self.resources.unsent.take() {
            self.put_texts_into_editor(vec![typed]);
        }
    }

    /// Reads the images that a text names, and shows a line about each image. Also shows warnings
    /// about images that only a paste names, which are not read, and about missing files.
    fn load_mentioned_images(&mut self, noted: &str, text: &str) -> Vec<PromptImageAttachment> {
        let mut images = Vec::new();
        for named in attach::load_mentioned_images(noted, &self.setup.paths.workspace) {
            self.view
                .add_finished_output_line(attach::describe_image(&named));
            images.extend(named.map(|(_, image)| image));
        }
        for line in attach::pasted_image_warnings(noted, text, &self.setup.paths.workspace) {
            self.view.add_finished_output_line(line);
        }
        for line in attach::missing_file_warnings(noted, &self.setup.paths.workspace) {
            self.view
                .add_finished_output_line(format_warning_line(&line));
        }
        images
    }

    /// Sends the texts that arrived too late for the turn as the input of a new turn. If the turn
    /// was blocked, failed or reached its maximum number of steps, moves the texts back into the
    /// editor.
    pub(super) fn handle_turn_ended(&mut self, outcome: &TurnOutcome) {
        // An interrupt has put the waiting texts back into the editor; later ones start the next
        // turn.
        match outcome.summary.stop {
            StopReason::Done | StopReason::Cancelled => self.send_waiting_texts(),
            _ => self.return_waiting_texts_to_editor(),
        }
    }

    /// Begins a turn with the texts that wait in the chat, if no turn or command runs.
    pub(super) fn send_waiting_texts(&mut self) {
        if self.worker.is_job_running() || self.leaving.is_some() {
            return;
        }
        let waiting = self.withdraw_queued_texts();
        if waiting.is_empty() {
            return;
        }
        let texts: Vec<&str> = waiting.iter().map(|typed| typed.text.as_str()).collect();
        let text = texts.join("\n\n");
        self.view.show_user_text(&text);
        let noted: Vec<&str> = waiting.iter().map(|typed| typed.noted.as_str()).collect();
        let images = self.load_mentioned_images(&noted.join("\n\n"), &text);
        let whole: Vec<String> = waiting.iter().map(TypedChatInputText::full_text).collect();
        // Fetch no resources, because a text that names a resource is refused while a turn or
        // command runs.
        self.start_turn_with_text(whole.join("\n\n"), images, Vec::new());
    }

    /// Moves all texts that wait for the running turn back into the editor.
    pub(super) fn return_waiting_texts_to_editor(&mut self) {
        let waiting = self.withdraw_queued_texts();
        if !waiting.is_empty() {
            self.put_texts_into_editor(waiting);
        }
    }

    /// Moves the text that was sent last back from the queue into the editor. Returns whether there
    /// was one.
    pub(super) fn return_last_text_to_editor(&mut self) -> bool {
        let last = self.steering.waiting_texts().pop();
        let typed = last.and_then(|last| self.take_waiting_text_by_number(last.number));
        typed
            .map(|typed| self.put_texts_into_editor(vec![typed]))
            .is_some()
    }

    fn put_texts_into_editor(&mut self, waiting: Vec<TypedChatInputText>) {
        let is_private = |text: &str| text.starts_with(' ');
        let (mut pieces, mut untold) = (Vec::new(), Vec::new());
        // Make the joined text private (begin it with a blank) if any part is private, so that the
        // history does not store it.
        let mut is_any = is_private(&self.editor.full_text());
        let is_first = waiting.first().is_some_and(|typed| is_private(&typed.text));
        for (n, typed) in waiting.into_iter().enumerate() {
            is_any |= is_private(&typed.text);
            if n > 0 {
                pieces.push(EditorPiece::Own("\n".to_owned()));
            }
            pieces.extend(typed.pieces);
            untold.extend(typed.untold);
        }
        if is_any && !is_first {
            pieces.insert(0, EditorPiece::Own(" ".to_owned()));
        }
        self.shell.requeue_command_outputs_for_model(untold);
        self.editor.prepend_text_pieces(&pieces);
        self.update_completion_menu();
    }

    fn withdraw_queued_texts(&mut self) -> Vec<TypedChatInputText> {
        let waiting = self.steering.waiting_texts().into_iter();
        waiting
            .filter_map(|waiting| self.take_waiting_text_by_number(waiting.number))
            .collect()
    }

    /// Removes a text from the queue and returns it; `None` if the turn has already taken it.
    fn take_waiting_text_by_number(&mut self, number: u64) -> Option<TypedChatInputText> {
        let input = self.steering.withdraw_queued_text(number);
        let typed = self.waiting.remove(&number);
        let input = input?;
        Some(typed.unwrap_or(TypedChatInputText {
            noted: input.text.clone(),
            pieces: vec![EditorPiece::Own(input.text.clone())],
            text: input.text,
            untold: Vec::new(),
        }))
    }
}
