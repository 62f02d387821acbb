//! Forms that the client shows: a question with one field.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rind_lib::point::handle::QuestionKind;
use std::sync::{Arc, Mutex};

use rind_lib::lock::lock;

use crate::backend::ConfirmPerson;
use crate::client::ClientLink;
use crate::wire::{
    BooleanPropertySchema, CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationRequestScope, ElicitationSchema,
    ElicitationScope, EnumOption, RequestId, StringPropertySchema,
};

/// Name of the only field of a form.
const FIELD: &str = "answer";

/// Content of the field.
pub(crate) enum FormAnswer {
    Yes(bool),
    Text(String),
}

/// Shows a form and waits for the answer. `None` where the person declined, or the client answered
/// with something else.
pub(crate) async fn ask_form(
    link: &ClientLink,
    scope: ElicitationScope,
    message: String,
    kind: &QuestionKind,
) -> Option<FormAnswer> {
    let schema = ElicitationSchema::new();
    let schema = match kind {
        QuestionKind::Confirm { default } => {
            let field = BooleanPropertySchema::new()
                .title("Yes".to_owned())
                .default_value(*default);
            schema.property(FIELD, field, true)
        }
        QuestionKind::Choose { options, default } => {
            let all = options.iter();
            let all: Vec<EnumOption> = all
                .map(|option| EnumOption::new(option.clone(), option.clone()))
                .collect();
            let at = usize::try_from(*default).ok();
            let default = at.and_then(|at| options.get(at)).cloned();
            let field = StringPropertySchema::new()
                .one_of(all)
                .default_value(default);
            schema.property(FIELD, field, true)
        }
        QuestionKind::Text { default } => {
            let field = StringPropertySchema::new().default_value(default.clone());
            schema.property(FIELD, field, true)
        }
    };
    let mode = ElicitationFormMode::new(scope, schema);
    let request = CreateElicitationRequest::new(mode, message);
    let asked = link
        .ask::<CreateElicitationResponse>("elicitation/create", &request)
        .await;
    let response = match asked {
        Ok(response) => response,
        Err(why) => {
            tracing::warn!("the client did not show a form: {why}");
            return None;
        }
    };
    let ElicitationAction::Accept(accepted) = response.action else {
        return None;
    };
    match accepted.content?.remove(FIELD)? {
        ElicitationContentValue::Boolean(yes) => Some(FormAnswer::Yes(yes)),
        ElicitationContentValue::String(text) => Some(FormAnswer::Text(text)),
        _ => None,
    }
}

/// Asks during a request of the client, before there is a session.
pub(crate) struct RequestForms {
    pub(crate) link: Arc<ClientLink>,
    pub(crate) request: RequestId,
}

impl ConfirmPerson for RequestForms {
    fn confirm(&self, text: String) -> BoxFuture<'_, bool> {
        async move {
            let scope = ElicitationRequestScope::new(self.request.clone());
            let scope = ElicitationScope::Request(scope);
            let kind = QuestionKind::Confirm { default: false };
            let answer = ask_form(&self.link, scope, text, &kind).await;
            matches!(answer, Some(FormAnswer::Yes(true)))
        }
        .boxed()
    }
}

/// Stores questions for a client without forms, which cannot be asked anything before its session
/// is open. Questions that are answered in the meantime get their answers.
#[derive(Default)]
pub(crate) struct LaterQuestions {
    /// Questions that wait.
    waiting: Mutex<Vec<String>>,
    /// Questions that were answered with yes.
    yes: Vec<String>,
}

impl LaterQuestions {
    /// Creates a list in which only these questions are answered with yes.
    pub(crate) fn with_yes(yes: Vec<String>) -> Self {
        Self {
            waiting: Mutex::default(),
            yes,
        }
    }

    /// Takes the questions that wait.
    pub(crate) fn take_waiting(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.waiting))
    }
}

impl ConfirmPerson for LaterQuestions {
    fn confirm(&self, text: String) -> BoxFuture<'_, bool> {
        let is_yes = self.yes.contains(&text);
        if !is_yes {
            lock(&self.waiting).push(text);
        }
        async move { is_yes }.boxed()
    }

    fn is_deferred(&self) -> bool {
        self.yes.is_empty()
    }
}
