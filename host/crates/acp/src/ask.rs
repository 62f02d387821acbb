//! Asks the user questions with a form of one field. If the client shows no forms, a question that
//! arises before the session is open is postponed until the first prompt.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rind_lib::point::handle::PluginUserQuestionKind;
use std::sync::{Arc, Mutex};

use rind_lib::lock::lock_ignoring_poison;

use crate::backend::YesNoQuestionAsker;
use crate::client::AcpClientHandle;
use crate::wire::{
    BooleanPropertySchema, CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationRequestScope, ElicitationSchema,
    ElicitationScope, EnumOption, RequestId, StringPropertySchema,
};

/// Name of the answer field, the only field of each form that the client shows.
const FORM_ANSWER_FIELD: &str = "answer";

/// Value that the client returned for the answer field of a form.
pub(crate) enum FormAnswer {
    Yes(bool),
    Text(String),
}

/// Shows a form and waits for the answer. Returns `None` if the user declined to answer, or if the
/// client responded with an error or with a value of another type.
pub(crate) async fn request_form_answer(
    link: &AcpClientHandle,
    scope: ElicitationScope,
    message: String,
    kind: &PluginUserQuestionKind,
) -> Option<FormAnswer> {
    let schema = ElicitationSchema::new();
    let schema = match kind {
        PluginUserQuestionKind::Confirm { default } => {
            let field = BooleanPropertySchema::new()
                .title("Yes".to_owned())
                .default_value(*default);
            schema.property(FORM_ANSWER_FIELD, field, true)
        }
        PluginUserQuestionKind::Choose { options, default } => {
            let all = options.iter();
            let all: Vec<EnumOption> = all
                .map(|option| EnumOption::new(option.clone(), option.clone()))
                .collect();
            let at = usize::try_from(*default).ok();
            let default = at.and_then(|at| options.get(at)).cloned();
            let field = StringPropertySchema::new()
                .one_of(all)
                .default_value(default);
            schema.property(FORM_ANSWER_FIELD, field, true)
        }
        PluginUserQuestionKind::Text { default } => {
            let field = StringPropertySchema::new().default_value(default.clone());
            schema.property(FORM_ANSWER_FIELD, field, true)
        }
    };
    let mode = ElicitationFormMode::new(scope, schema);
    let request = CreateElicitationRequest::new(mode, message);
    let asked = link
        .send_request::<CreateElicitationResponse>("elicitation/create", &request)
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
    match accepted.content?.remove(FORM_ANSWER_FIELD)? {
        ElicitationContentValue::Boolean(yes) => Some(FormAnswer::Yes(yes)),
        ElicitationContentValue::String(text) => Some(FormAnswer::Text(text)),
        _ => None,
    }
}

/// Asks questions with forms while a session is being opened. The forms name the id of the client's
/// request, because the session has no id yet.
pub(crate) struct PreSessionFormAsker {
    pub(crate) link: Arc<AcpClientHandle>,
    pub(crate) request: RequestId,
}

impl YesNoQuestionAsker for PreSessionFormAsker {
    fn confirm(&self, text: String) -> BoxFuture<'_, bool> {
        async move {
            let scope = ElicitationRequestScope::new(self.request.clone());
            let scope = ElicitationScope::Request(scope);
            let kind = PluginUserQuestionKind::Confirm { default: false };
            let answer = request_form_answer(&self.link, scope, text, &kind).await;
            matches!(answer, Some(FormAnswer::Yes(true)))
        }
        .boxed()
    }
}

/// Collects the questions that arise before a session is open, for a client without forms. Answers
/// each question with no and keeps it, so that it is asked with the first prompt. Questions in
/// `yes` are answered with yes at once.
#[derive(Default)]
pub(crate) struct PostponedYesNoQuestions {
    /// Questions that were answered with no and are asked again with the first prompt.
    waiting: Mutex<Vec<String>>,
    /// Questions that the user has already answered with yes.
    yes: Vec<String>,
}

impl PostponedYesNoQuestions {
    /// Creates a collection that answers the questions in `yes`, which the user has already
    /// approved, with yes and all others with no.
    pub(crate) fn new_answering_yes_to(yes: Vec<String>) -> Self {
        Self {
            waiting: Mutex::default(),
            yes,
        }
    }

    /// Removes the questions that are to be asked with the first prompt, and returns them.
    pub(crate) fn take_questions(&self) -> Vec<String> {
        std::mem::take(&mut *lock_ignoring_poison(&self.waiting))
    }
}

impl YesNoQuestionAsker for PostponedYesNoQuestions {
    fn confirm(&self, text: String) -> BoxFuture<'_, bool> {
        let is_yes = self.yes.contains(&text);
        if !is_yes {
            lock_ignoring_poison(&self.waiting).push(text);
        }
        async move { is_yes }.boxed()
    }

    fn is_postponing_until_prompt(&self) -> bool {
        self.yes.is_empty()
    }
}
