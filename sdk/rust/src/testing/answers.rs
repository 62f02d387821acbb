//! Lets a test answer in place of real services: HTTP servers, models, subagents, tools, other
//! plugins.

use std::cell::RefCell;
use std::rc::Rc;

use crate::agents::Task;
use crate::http::{Request, Response};
use crate::model::{Question, Reply};
use crate::points::Answer;
use crate::shell::Reading;
use crate::types::Error;

type Function<A, T> = Rc<dyn Fn(A) -> Result<T, Error>>;

/// Holder of the function with which a test answers one kind of call.
pub(super) struct Answerer<A, T> {
    function: RefCell<Option<Function<A, T>>>,
    /// Name of the public function with which a test sets `function`; the error message names it.
    set_with: &'static str,
}

impl<A, T> Answerer<A, T> {
    pub(super) const fn new(set_with: &'static str) -> Self {
        Self {
            function: RefCell::new(None),
            set_with,
        }
    }

    /// Removes the function.
    pub(super) fn reset(&self) {
        self.function.replace(None);
    }

    pub(super) fn set(&self, function: impl Fn(A) -> Result<T, Error> + 'static) {
        self.function.replace(Some(Rc::new(function)));
    }

    pub(super) fn answer(&self, asked: A) -> Result<T, Error> {
        // End the borrow before the call, because the function itself may set another function.
        let function = self.function.borrow().clone();
        match function {
            Some(function) => function(asked),
            None => Err(Error::Denied(format!(
                "this test has no function that answers this kind of call; set one with `rind_sdk::testing::{}`",
                self.set_with
            ))),
        }
    }
}

thread_local! {
    static HTTP: Answerer<Request, Response> = const { Answerer::new("answer_http") };
    static MODEL: Answerer<Question, Reply> = const { Answerer::new("answer_model") };
    static AGENTS: Answerer<Task, String> = const { Answerer::new("answer_agents") };
    static TOOLS: Answerer<(String, String), String> = const { Answerer::new("answer_tools") };
    static ASK: Answerer<Asked, Answered> = const { Answerer::new("answer_questions") };
    static POINTS: Answerer<(String, String), Answer> = const { Answerer::new("answer_points") };
    static SHELL: Answerer<String, Reading> = const { Answerer::new("answer_commands") };
}

/// Removes all functions that answer calls, and all started subagents, on this thread.
pub(super) fn reset() {
    HTTP.with(|own| own.function.replace(None));
    MODEL.with(|own| own.function.replace(None));
    AGENTS.with(|own| own.function.replace(None));
    TOOLS.with(|own| own.function.replace(None));
    ASK.with(|own| own.function.replace(None));
    POINTS.with(|own| own.function.replace(None));
    SHELL.with(|own| own.function.replace(None));
    agents::reset();
}

/// A question of the plugin to the user, in a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `ask::confirm`: the question.
    Confirm(String),
    /// `ask::choose`: the question and the options.
    Choose(String, Vec<String>),
    /// `ask::text`: the question.
    Text(String),
}

/// Answer of the user in a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Yes or no.
    Yes(bool),
    /// Index of the option, from 0.
    Choice(u32),
    /// A line of text.
    Text(String),
}

/// Sets the function that answers the plugin's questions to the user on this thread. Without a
/// function, each question returns its default, as if no user could be asked.
pub fn answer_questions(answer: impl Fn(Asked) -> Result<Answered, Error> + 'static) {
    ASK.with(|own| own.set(answer));
}

/// Sets the function that answers the plugin's HTTP requests on this thread. Without one they are
/// denied.
pub fn answer_http(answer: impl Fn(Request) -> Result<Response, Error> + 'static) {
    HTTP.with(|own| own.set(answer));
}

/// Sets the function that answers the plugin's questions to a model on this thread. Without one
/// they are denied.
pub fn answer_model(answer: impl Fn(Question) -> Result<Reply, Error> + 'static) {
    MODEL.with(|own| own.set(answer));
}

/// Sets the function that answers for the plugin's subagents on this thread. Without one they are
/// denied.
pub fn answer_agents(answer: impl Fn(Task) -> Result<String, Error> + 'static) {
    AGENTS.with(|own| own.set(answer));
}

/// Sets the function that answers the plugin's calls of tools on this thread with a text, by name
/// and JSON arguments. Without one they are denied.
pub fn answer_tools(answer: impl Fn(&str, &str) -> Result<String, Error> + 'static) {
    TOOLS.with(|own| {
        own.set(move |(name, arguments): (String, String)| answer(&name, &arguments));
    });
}

/// Sets the function that answers the plugin's calls of extension points on this thread, by name
/// and JSON payload. Without one they are denied.
pub fn answer_points(answer: impl Fn(&str, &str) -> Result<Answer, Error> + 'static) {
    POINTS.with(|own| own.set(move |(name, payload): (String, String)| answer(&name, &payload)));
}

/// Sets the function that parses shell commands on this thread, since the host's parser is not
/// available in tests. Without one, each reading has a doubt and no programs.
pub fn answer_commands(answer: impl Fn(&str) -> Reading + 'static) {
    SHELL.with(|own| own.set(move |command: String| Ok(answer(&command))));
}

pub(crate) fn read_command(command: &str) -> Reading {
    let answer = SHELL.with(|own| own.answer(command.to_owned()));
    answer.unwrap_or_else(|error| Reading {
        programs: Vec::new(),
        doubt: Some(error.message().to_owned()),
    })
}

pub(crate) mod http {
    use super::{Error, HTTP, Request, Response};

    pub(crate) fn send(request: &Request) -> Result<Response, Error> {
        HTTP.with(|own| own.answer(request.clone()))
    }
}

pub(crate) mod model {
    use super::{Error, MODEL, Question, Reply};

    pub(crate) fn ask(question: &Question) -> Result<Reply, Error> {
        MODEL.with(|own| own.answer(question.clone()))
    }
}

pub(crate) mod ask {
    use super::{ASK, Answered, Asked, Error};

    fn answer(asked: Asked) -> Result<Option<Answered>, Error> {
        let is_there = ASK.with(|own| own.function.borrow().is_some());
        match is_there {
            true => ASK.with(|own| own.answer(asked)).map(Some),
            false => Ok(None),
        }
    }

    fn wrong_answer_kind<T>() -> Result<T, Error> {
        Err(Error::Failed(
            "the answer does not fit the question".to_owned(),
        ))
    }

    pub(crate) fn confirm(text: &str, default: bool) -> Result<bool, Error> {
        match answer(Asked::Confirm(text.to_owned()))? {
            None => Ok(default),
            Some(Answered::Yes(yes)) => Ok(yes),
            Some(_) => wrong_answer_kind(),
        }
    }

    pub(crate) fn choose(text: &str, options: &[String], default: u32) -> Result<u32, Error> {
        match answer(Asked::Choose(text.to_owned(), options.to_vec()))? {
            None => Ok(default),
            Some(Answered::Choice(at)) if (at as usize) < options.len() => Ok(at),
            Some(_) => wrong_answer_kind(),
        }
    }

    pub(crate) fn text(text: &str, default: &str) -> Result<String, Error> {
        match answer(Asked::Text(text.to_owned()))? {
            None => Ok(default.to_owned()),
            Some(Answered::Text(text)) => Ok(text),
            Some(_) => wrong_answer_kind(),
        }
    }
}

pub(crate) mod agents {
    use std::cell::RefCell;

    use super::{AGENTS, Error, Task};
    use crate::agents::{Order, Preset, Report};

    thread_local! {
        /// Subagents that were started. Each has already ended.
        static STARTED: RefCell<Vec<Report>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn reset() {
        STARTED.take();
    }

    pub(crate) fn run(task: &Task) -> Result<String, Error> {
        AGENTS.with(|own| own.answer(task.clone()))
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it has the signature of the real host's function"
    )]
    pub(crate) fn presets() -> Result<Vec<Preset>, Error> {
        Ok(Vec::new())
    }

    pub(crate) fn start(order: &Order) -> Result<String, Error> {
        let answer = run(&Task {
            prompt: order.prompt.clone(),
            tools: order.tools.clone().unwrap_or_default(),
            max_steps: order.max_steps.unwrap_or(u32::MAX),
        })?;
        STARTED.with_borrow_mut(|started| {
            let id = format!("sub-{}", started.len() + 1);
            started.push(Report {
                id: id.clone(),
                state: "answered".to_owned(),
                answer,
                steps: 1,
                cost_usd: 0.0,
            });
            Ok(id)
        })
    }

    pub(crate) fn resume(id: &str, message: &str) -> Result<(), Error> {
        stop(id)?;
        let answer = run(&Task::new(message))?;
        STARTED.with_borrow_mut(|started| {
            let own = started.iter_mut().find(|own| own.id == id);
            if let Some(own) = own {
                own.answer = answer;
            }
        });
        Ok(())
    }

    pub(crate) fn wait(ids: &[String], _: u64) -> Result<Vec<Report>, Error> {
        ids.iter().map(|id| stop(id)).collect()
    }

    pub(crate) fn stop(id: &str) -> Result<Report, Error> {
        let own = STARTED.with_borrow(|started| started.iter().find(|own| own.id == id).cloned());
        own.ok_or_else(|| Error::NotFound(format!("there is no subagent `{id}`")))
    }
}

pub(crate) mod tools_host {
    use super::{Error, TOOLS};
    use crate::types::Part;

    pub(crate) fn call(name: &str, arguments: &str) -> Result<Vec<Part>, Error> {
        let text = TOOLS.with(|own| own.answer((name.to_owned(), arguments.to_owned())))?;
        Ok(vec![Part::Text(text)])
    }
}

pub(crate) mod points {
    use super::{Answer, Error, POINTS};

    pub(crate) fn call(name: &str, payload: &str) -> Result<Answer, Error> {
        POINTS.with(|own| own.answer((name.to_owned(), payload.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_further_is_denied_until_the_test_answers_it() {
        crate::testing::reset();
        let get = || crate::http::send(&Request::get("https://a.example/"));
        let denied = |error: Error| match error {
            Error::Denied(text) => text,
            other => panic!("{other:?}"),
        };
        assert!(denied(get().unwrap_err()).contains("testing::answer_http"));
        assert!(
            denied(crate::model::ask(&Question::new("?")).unwrap_err()).contains("answer_model")
        );
        assert!(denied(crate::agents::run(&Task::new("?")).unwrap_err()).contains("answer_agents"));
        assert!(denied(crate::tools::call("bash", "{}").unwrap_err()).contains("answer_tools"));
        assert!(denied(crate::points::call("mine", "{}").unwrap_err()).contains("answer_points"));
        let doubt = crate::shell::read("ls").doubt.unwrap();
        assert!(doubt.contains("answer_commands"), "{doubt}");

        answer_http(|request| {
            Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: request.url.into_bytes(),
            })
        });
        assert_eq!(get().unwrap().text(), "https://a.example/");
        answer_tools(|name, arguments| Ok(format!("{name} {arguments}")));
        assert_eq!(crate::tools::call("bash", "{}").unwrap(), "bash {}");
        answer_agents(|task| Ok(task.prompt));
        let order = crate::agents::Order::new("", "look");
        assert_eq!(crate::agents::start(&order).unwrap(), "sub-1");
        crate::testing::reset();
        assert!(get().is_err());
        // Subagents that were started before are forgotten too.
        assert!(crate::agents::stop("sub-1").is_err());
        answer_agents(|task| Ok(task.prompt));
        assert_eq!(crate::agents::start(&order).unwrap(), "sub-1");
    }
}
