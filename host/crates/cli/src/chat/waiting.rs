//! Sends typed texts: as a new turn, or to the running turn, in whose queue they wait.
//!
//! A text waits together with the output of `!` commands that the model has not seen yet. When a
//! text is taken back, the two are separated: the editor and the history get the typed text only.

use super::super::attach;
use super::super::render::{DIM, one_line, style_text, warning_text};
use super::super::resource::{BETWEEN_TURNS, ResourceMention, find_mentions};
use super::editor::EditorPiece;
use super::live::LiveChat;
use super::worker::ChatPrompt;
use rind_lib::agent::TurnOutcome;
use rind_lib::message::Attachment;
use rind_lib::point::payload::{Source, StopReason};

pub(super) struct TypedLine {
    pub(super) text: String,
    /// Text with notes in place of long pastes, because only typed words can name images.
    noted: String,
    /// Pieces of the text, to restore it in the editor.
    pieces: Vec<EditorPiece>,
    /// Output of `!` commands that is sent to the model before the text.
    untold: Vec<String>,
}

impl TypedLine {
    fn whole(&self) -> String {
        let parts = self.untold.iter().chain([&self.text]);
        parts.map(String::as_str).collect::<Vec<_>>().join("\n\n")
    }
}

impl LiveChat {
    /// Sends the text of the editor: as a new turn, or to the running one.
    pub(super) fn send_line(&mut self, is_follow_up: bool) {
        let (text, noted) = (self.editor.whole(), self.editor.noted());
        let pieces = self.editor.pieces();
        if text.trim().is_empty() {
            return;
        }
        let Some(resources) = self.find_resources(&noted, &text) else {
            return;
        };
        self.editor.clear_text();
        self.history.add_pieces(&pieces);
        let untold = self.shell.take_unseen_output();
        let typed = TypedLine {
            text,
            noted,
            pieces,
            untold,
        };
        let whole = typed.whole();
        let is_running = self.worker.is_running();
        if !is_running {
            self.view.show_user_text(&typed.noted);
        }
        let images = self.find_images(&typed.noted, &typed.text);
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
        let waiting = self.steering.waiting();
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

    /// Finds the resources of MCP servers that a text names. Returns `None`, after a message, if
    /// the text cannot be sent; it then stays in the editor.
    fn find_resources(&mut self, noted: &str, text: &str) -> Option<Vec<ResourceMention>> {
        let servers = self.resources.servers();
        let found = match find_mentions(noted, &servers) {
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
        let pasted = find_mentions(text, &servers).unwrap_or_default();
        for mention in pasted.iter().filter(|own| !found.contains(own)) {
            let name = one_line(&format!("@{}:{}", mention.server, mention.uri), 200);
            let words = format!("not fetched: {name}: only a paste names it; type it to fetch it");
            self.view.say_line(style_text(DIM, words));
        }
        Some(found)
    }

    /// Puts a text whose resources could not be fetched back into the editor, and says why.
    pub(super) fn withdraw_unsent(&mut self, why: &str) {
        self.view
            .say_line(warning_text(&format!("not sent: {why}")));
        self.withdraw_all();
        if let Some(typed) = self.resources.unsent.take() {
            self.put_back(vec![typed]);
        }
    }

    /// Reads the images that a text names, and shows a line about each. Also shows names of images
    /// inside a paste, which are not read, and names of missing files.
    fn find_images(&mut self, noted: &str, text: &str) -> Vec<Attachment> {
        let mut images = Vec::new();
        for named in attach::attach_mentioned(noted, &self.setup.paths.workspace) {
            self.view.say_line(attach::in_words(&named));
            images.extend(named.map(|(_, image)| image));
        }
        for line in attach::only_pasted(noted, text, &self.setup.paths.workspace) {
            self.view.say_line(line);
        }
        for line in attach::missing_files(noted, &self.setup.paths.workspace) {
            self.view.say_line(warning_text(&line));
        }
        images
    }

    /// Sends the texts that arrived too late for the turn. If the turn was blocked, failed or
    /// reached its maximum of steps, puts them back into the editor.
    pub(super) fn turn_ended(&mut self, outcome: &TurnOutcome) {
        // An interrupt has put the waiting texts back into the editor; later ones start the next
        // turn.
        match outcome.summary.stop {
            StopReason::Done | StopReason::Cancelled => self.send_waiting(),
            _ => self.withdraw_all(),
        }
    }

    /// Begins a turn with the waiting texts, if nothing runs.
    pub(super) fn send_waiting(&mut self) {
        if self.worker.is_running() || self.leaving.is_some() {
            return;
        }
        let waiting = self.take_waiting();
        if waiting.is_empty() {
            return;
        }
        let texts: Vec<&str> = waiting.iter().map(|typed| typed.text.as_str()).collect();
        let text = texts.join("\n\n");
        self.view.show_user_text(&text);
        let noted: Vec<&str> = waiting.iter().map(|typed| typed.noted.as_str()).collect();
        let images = self.find_images(&noted.join("\n\n"), &text);
        let whole: Vec<String> = waiting.iter().map(TypedLine::whole).collect();
        // There are no resources to fetch: a text that names one is refused while something runs.
        self.begin_turn(whole.join("\n\n"), images, Vec::new());
    }

    /// Puts everything that waits back into the editor.
    pub(super) fn withdraw_all(&mut self) {
        let waiting = self.take_waiting();
        if !waiting.is_empty() {
            self.put_back(waiting);
        }
    }

    /// Puts the text that was sent last back into the editor. Returns whether there was one.
    pub(super) fn withdraw_last(&mut self) -> bool {
        let last = self.steering.waiting().pop();
        let typed = last.and_then(|last| self.take_back(last.number));
        typed.map(|typed| self.put_back(vec![typed])).is_some()
    }

    fn put_back(&mut self, waiting: Vec<TypedLine>) {
        let is_private = |text: &str| text.starts_with(' ');
        let (mut pieces, mut untold) = (Vec::new(), Vec::new());
        // If one part is private (begins with a blank), the joined text must be too, so that the
        // history skips it.
        let mut is_any = is_private(&self.editor.whole());
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
        self.shell.put_back(untold);
        self.editor.insert_before(&pieces);
        self.propose_completions();
    }

    fn take_waiting(&mut self) -> Vec<TypedLine> {
        let waiting = self.steering.waiting().into_iter();
        waiting
            .filter_map(|waiting| self.take_back(waiting.number))
            .collect()
    }

    /// Takes a text back from the queue; `None` if the turn has already taken it.
    fn take_back(&mut self, number: u64) -> Option<TypedLine> {
        let input = self.steering.take_back(number);
        let typed = self.waiting.remove(&number);
        let input = input?;
        Some(typed.unwrap_or(TypedLine {
            noted: input.text.clone(),
            pieces: vec![EditorPiece::Own(input.text.clone())],
            text: input.text,
            untold: Vec::new(),
        }))
    }
}
