//! Sends typed texts: as the input of a new turn, or to the queue of the running turn.
//!
//! A text in the queue includes the output of `!` commands that the model has not seen yet. If the
//! text is moved back into the editor, the output is removed from it.

use super::super::attach;
use super::super::render::{DIM, one_line, style_text, warning_text};
use super::super::resource::{BETWEEN_TURNS, ResourceMention, find_resource_mentions};
use super::editor::EditorPiece;
use super::live::LiveChat;
use super::worker::ChatPrompt;
use rind_lib::agent::TurnOutcome;
use rind_lib::message::Attachment;
use rind_lib::point::payload::{Source, StopReason};

pub(super) struct TypedText {
    pub(super) text: String,
    /// Text in which notes replace long pastes. Only its words can name images, because the person
    /// did not type a paste.
    noted: String,
    /// Typed and pasted pieces of the text, with which the text is restored in the editor.
    pieces: Vec<EditorPiece>,
    /// Output of `!` commands that is sent to the model before this text.
    untold: Vec<String>,
}

impl TypedText {
    fn full_text(&self) -> String {
        let parts = self.untold.iter().chain([&self.text]);
        parts.map(String::as_str).collect::<Vec<_>>().join("\n\n")
    }
}

impl LiveChat {
    /// Sends the text in the editor: as the input of a new turn, or to the running turn.
    pub(super) fn send_editor_text(&mut self, is_follow_up: bool) {
        let (text, noted) = (self.editor.full_text(), self.editor.display_text());
        let pieces = self.editor.pieces();
        if text.trim().is_empty() {
            return;
        }
        let Some(resources) = self.find_mentioned_resources(&noted, &text) else {
            return;
        };
        self.editor.clear_text();
        self.history.add_pieces(&pieces);
        let untold = self.shell.take_unseen_output();
        let typed = TypedText {
            text,
            noted,
            pieces,
            untold,
        };
        let whole = typed.full_text();
        let is_running = self.worker.is_running();
        if !is_running {
            self.view.show_user_text(&typed.noted);
        }
        let images = self.load_mentioned_images(&typed.noted, &typed.text);
        if !is_running {
            self.resources.unsent = (!resources.is_empty()).then_some(typed);
            return self.begin_turn(whole, images, resources);
        }
        let number = match is_follow_up {
            true => {
                let steering = &self.steering;
                steering.follow_up_with(whole, Source::Terminal, images)
            }
            false => self.steering.steer_with(whole, Source::Terminal, images),
        };
        let waiting = self.steering.waiting_texts();
        self.waiting
            .retain(|known, _| waiting.iter().any(|waiting| waiting.number == *known));
        self.waiting.insert(number, typed);
    }

    fn begin_turn(
        &mut self,
        text: String,
        images: Vec<Attachment>,
        resources: Vec<ResourceMention>,
    ) {
        self.interrupted = None;
        self.worker.start_turn(ChatPrompt {
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
    ) -> Option<Vec<ResourceMention>> {
        let servers = self.resources.servers();
        let found = match find_resource_mentions(noted, &servers) {
            Ok(found) if found.is_empty() || !self.worker.is_running() => found,
            Ok(_) => {
                self.view
                    .say_line(warning_text(&format!("not sent: {BETWEEN_TURNS}")));
                return None;
            }
            Err(why) => {
                self.view
                    .say_line(warning_text(&format!("not sent: {why}")));
                return None;
            }
        };
        let pasted = find_resource_mentions(text, &servers).unwrap_or_default();
        for mention in pasted.iter().filter(|own| !found.contains(own)) {
            let name = one_line(&format!("@{}:{}", mention.server, mention.uri), 200);
            let words = format!(
                "{name} is not fetched, because only pasted text names it; type the name to fetch it"
            );
            self.view.say_line(style_text(DIM, words));
        }
        Some(found)
    }

    /// Shows why the resources of a text could not be fetched, and moves the text, which was not
    /// sent, back into the editor.
    pub(super) fn withdraw_unsent_text(&mut self, why: &str) {
        self.view
            .say_line(warning_text(&format!("not sent: {why}")));
        self.return_waiting_texts();
        if let Some(typed) = self.resources.unsent.take() {
            self.put_texts_into_editor(vec![typed]);
        }
    }

    /// Reads the images that a text names, and shows a line about each image. Also shows warnings
    /// about images that only a paste names, which are not read, and about missing files.
    fn load_mentioned_images(&mut self, noted: &str, text: &str) -> Vec<Attachment> {
        let mut images = Vec::new();
        for named in attach::attach_mentioned_images(noted, &self.setup.paths.workspace) {
            self.view.say_line(attach::describe_image(&named));
            images.extend(named.map(|(_, image)| image));
        }
        for line in attach::warn_pasted_images(noted, text, &self.setup.paths.workspace) {
            self.view.say_line(line);
        }
        for line in attach::warn_missing_files(noted, &self.setup.paths.workspace) {
            self.view.say_line(warning_text(&line));
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
            _ => self.return_waiting_texts(),
        }
    }

    /// Begins a turn with the texts that wait in the chat, if no turn or command runs.
    pub(super) fn send_waiting_texts(&mut self) {
        if self.worker.is_running() || self.leaving.is_some() {
            return;
        }
        let waiting = self.take_waiting_texts();
        if waiting.is_empty() {
            return;
        }
        let texts: Vec<&str> = waiting.iter().map(|typed| typed.text.as_str()).collect();
        let text = texts.join("\n\n");
        self.view.show_user_text(&text);
        let noted: Vec<&str> = waiting.iter().map(|typed| typed.noted.as_str()).collect();
        let images = self.load_mentioned_images(&noted.join("\n\n"), &text);
        let whole: Vec<String> = waiting.iter().map(TypedText::full_text).collect();
        // Fetch no resources, because a text that names a resource is refused while a turn or
        // command runs.
        self.begin_turn(whole.join("\n\n"), images, Vec::new());
    }

    /// Moves all waiting texts back into the editor.
    pub(super) fn return_waiting_texts(&mut self) {
        let waiting = self.take_waiting_texts();
        if !waiting.is_empty() {
            self.put_texts_into_editor(waiting);
        }
    }

    /// Moves the text that was sent last back from the queue into the editor. Returns whether there
    /// was one.
    pub(super) fn withdraw_last_text(&mut self) -> bool {
        let last = self.steering.waiting_texts().pop();
        let typed = last.and_then(|last| self.take_queued_text(last.number));
        typed
            .map(|typed| self.put_texts_into_editor(vec![typed]))
            .is_some()
    }

    fn put_texts_into_editor(&mut self, waiting: Vec<TypedText>) {
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
        self.shell.requeue_output(untold);
        self.editor.insert_before(&pieces);
        self.propose_completions();
    }

    fn take_waiting_texts(&mut self) -> Vec<TypedText> {
        let waiting = self.steering.waiting_texts().into_iter();
        waiting
            .filter_map(|waiting| self.take_queued_text(waiting.number))
            .collect()
    }

    /// Removes a text from the queue and returns it; `None` if the turn has already taken it.
    fn take_queued_text(&mut self, number: u64) -> Option<TypedText> {
        let input = self.steering.withdraw_queued_text(number);
        let typed = self.waiting.remove(&number);
        let input = input?;
        Some(typed.unwrap_or(TypedText {
            noted: input.text.clone(),
            pieces: vec![EditorPiece::Own(input.text.clone())],
            text: input.text,
            untold: Vec::new(),
        }))
    }
}
