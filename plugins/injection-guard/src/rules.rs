//! Lists phrases of prompt injections. A text is suspicious if the signs within a short stretch of
//! it have a total weight of about 1.

/// Kind of sign that a rule finds. Each kind counts once within a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignKind {
    /// Phrase that tells the model to drop its instructions.
    Override,
    /// Phrase that gives the model another role or task.
    Persona,
    /// Text that poses as a turn of the conversation.
    FakeTurn,
    /// Phrase that asks the model to hide something from the user.
    Conceal,
    /// Phrase that asks for secrets.
    Secrets,
    /// Phrase that addresses a model and not a human reader.
    Addressed,
    /// Orders to the reader.
    Orders,
    /// Phrase by which the text claims authority over the model.
    Authority,
    /// Order to decode a text, such as base64, and to follow it.
    Encoded,
    /// HTML comment, which a reader does not see, with other signs in it.
    Comment,
    /// Invisible characters.
    Hidden,
}

impl SignKind {
    /// Number of kinds.
    pub(crate) const COUNT: usize = Self::Hidden as usize + 1;

    /// Describes the kind.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Override => "it says to drop earlier instructions",
            Self::Persona => "it hands out a new role or task",
            Self::FakeTurn => "it poses as a turn of the conversation",
            Self::Conceal => "it wants something kept from the user",
            Self::Secrets => "it wants secrets shown or sent",
            Self::Addressed => "it speaks to a model, not to a reader",
            Self::Orders => "it gives orders",
            Self::Authority => "it claims authority",
            Self::Encoded => "it wants encoded text followed",
            Self::Comment => "it is in a comment",
            Self::Hidden => "it holds invisible characters",
        }
    }
}

/// One rule.
pub(crate) struct InjectionRule {
    /// Kind of sign.
    pub(crate) kind: SignKind,
    /// Weight of the sign.
    pub(crate) weight: f32,
    /// Whether the sign has its full weight only if the phrase is an order ("ignore …", not "models
    /// ignore …").
    pub(crate) is_order: bool,
    /// Pattern of words, as in [`PhrasePattern`](crate::pattern::PhrasePattern).
    pub(crate) pattern: &'static str,
}

const fn order_rule(kind: SignKind, weight: f32, pattern: &'static str) -> InjectionRule {
    InjectionRule {
        kind,
        weight,
        is_order: true,
        pattern,
    }
}

const fn phrase_rule(kind: SignKind, weight: f32, pattern: &'static str) -> InjectionRule {
    InjectionRule {
        kind,
        weight,
        is_order: false,
        pattern,
    }
}

use SignKind::{Addressed, Authority, Conceal, Encoded, Orders, Override, Persona, Secrets};

/// Rules with patterns of words.
pub(crate) const RULES: &[InjectionRule] = &[
    order_rule(
        Override,
        1.0,
        "ignore|disregard|forget|override|bypass|neglect|discard|dismiss ..3 previous|prior|above|earlier|preceding|all|any|your|former|existing|original|system|foregoing|these|other|safety ..4 instruction*|prompt*|directive*|guideline*|guardrail*|safeguard*|programming|training|told",
    ),
    order_rule(
        Override,
        0.6,
        "ignore|disregard|forget|override|bypass|discard ..2 previous|prior|above|earlier|preceding|your|original|system|safety ..3 rules|constraint*|command*|order*|restriction*|polic*|message*|conversation|context|task*",
    ),
    order_rule(
        Override,
        1.0,
        "ignore|disregard|forget everything|anything|all|what ..4 above|before|previously|told|said|instructed",
    ),
    order_rule(
        Override,
        1.0,
        "do not follow|obey ..3 previous|prior|above|earlier|your|original|system ..3 instruction*|rules|prompt*|guideline*",
    ),
    order_rule(
        Override,
        1.0,
        "don't|stop|never|quit follow|following|obey|obeying ..3 previous|prior|above|earlier|your|original|system ..3 instruction*|rules|prompt*|guideline*",
    ),
    phrase_rule(
        Override,
        1.0,
        "previous|prior|earlier|old|original|above instruction*|prompt|rules|directives ..2 are|is|were|have|no ..3 void|longer|replaced|revoked|cancelled|canceled|obsolete|superseded|overridden|outdated",
    ),
    phrase_rule(
        Override,
        1.0,
        "ignora|olvida|ignore ..3 instrucciones|instrucoes|instruções ..2 anteriores|previas|prévias",
    ),
    phrase_rule(
        Override,
        1.0,
        "ignoriere|vergiss|missachte ..3 vorherigen|bisherigen|obigen|früheren|deine ..2 anweisungen|instruktionen|regeln",
    ),
    phrase_rule(
        Override,
        1.0,
        "ignore|ignorez|oublie|oubliez ..3 instructions|consignes ..1 précédentes|antérieures",
    ),
    phrase_rule(Persona, 0.6, "you are|must now"),
    phrase_rule(Persona, 0.6, "you're now"),
    phrase_rule(Persona, 0.6, "from now on ..2 you"),
    phrase_rule(Persona, 0.4, "pretend ..2 you|to"),
    order_rule(Persona, 0.3, "act|behave as a|an|if|my"),
    phrase_rule(
        Persona,
        0.4,
        "new|updated|revised|actual|real|additional instruction*|directive*|orders",
    ),
    phrase_rule(
        Persona,
        0.7,
        "your new|real|actual|true|only|primary|next task|job|goal|role|objective|instruction*|purpose|mission",
    ),
    phrase_rule(
        Persona,
        0.4,
        "developer|dan|god|unrestricted|jailbreak mode",
    ),
    phrase_rule(Persona, 0.8, "do anything now"),
    phrase_rule(
        Conceal,
        0.6,
        "do not ..1 tell|inform|mention|reveal|disclose|alert|notify|warn|report|show ..5 user|human|person|operator|anyone|owner|developer",
    ),
    phrase_rule(
        Conceal,
        0.6,
        "don't|never ..1 tell|inform|mention|reveal|disclose|alert|notify|warn|report|show ..5 user|human|person|operator|anyone|owner|developer",
    ),
    phrase_rule(
        Conceal,
        0.6,
        "without ..2 telling|informing|notifying|alerting|asking|mentioning|warning ..4 user|human|person|operator|anyone|owner",
    ),
    phrase_rule(
        Conceal,
        0.6,
        "keep|hide ..4 secret|hidden|confidential|quiet|this ..2 from ..2 user|human|person|operator|owner",
    ),
    phrase_rule(
        Conceal,
        0.5,
        "not|never|don't mention|reveal|repeat|acknowledge ..2 this|these|the instruction*|message|note|step",
    ),
    phrase_rule(
        Conceal,
        0.5,
        "user|human|operator must|should|need not|never ..1 know|see|notice|learn",
    ),
    order_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|leak|exfiltrate|transmit|print|reveal|output|paste|include|append|share|give|dump|show|copy|encode|collect|read|cat|curl ..8 api|access|ssh|private|secret|signing|auth key|keys|token|tokens",
    ),
    order_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|leak|exfiltrate|transmit|print|reveal|output|paste|include|append|share|give|dump|show|copy|encode|collect|read|cat|curl ..8 password*|credential*|secrets|env|rsa|passwd|keychain|cookies",
    ),
    order_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|leak|exfiltrate|transmit|print|reveal|output|paste|dump|show|collect ..6 environment|env variable*|vars",
    ),
    order_rule(
        Secrets,
        0.7,
        "print|reveal|output|repeat|show|send|leak|disclose|tell|give|display ..5 system|initial|hidden|original|your prompt|instructions",
    ),
    order_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|transmit|append ..6 conversation|chat|transcript|history ..4 to",
    ),
    phrase_rule(
        Addressed,
        0.35,
        "ai|llm|language|coding assistant*|agent*|model*|bot|system*",
    ),
    phrase_rule(
        Addressed,
        0.6,
        "if you are ..4 ai|llm|language|assistant|agent|chatbot|bot|claude|gpt|chatgpt|copilot|automated",
    ),
    phrase_rule(
        Addressed,
        0.6,
        "if you're ..4 ai|llm|language|assistant|agent|chatbot|bot|claude|gpt|chatgpt|copilot|automated",
    ),
    phrase_rule(
        Addressed,
        0.5,
        "attention|dear|hey|hello ..2 ai|assistant|agent|llm|claude|chatgpt|copilot|model|models|agents|assistants",
    ),
    phrase_rule(
        Addressed,
        0.5,
        "note|message|notice|instructions|memo|reminder to|for ..3 ai|assistant|assistants|llm|llms|agent|agents|claude|chatgpt|copilot|models|bots",
    ),
    order_rule(
        Orders,
        0.3,
        "run|execute|call|invoke|use|open|visit ..2 following|this|the ..3 command*|script|tool|link|url|code|function",
    ),
    order_rule(
        Orders,
        0.3,
        "respond|reply|answer|say only|with|that|exactly",
    ),
    order_rule(
        Orders,
        0.4,
        "delete|remove|wipe|erase|overwrite ..3 all|every|everything|entire ..3 file*|folder*|database*|repository|branch*|backup*|directory",
    ),
    order_rule(Orders, 0.4, "curl|wget ..12 sh|bash"),
    phrase_rule(
        Orders,
        0.3,
        "you|assistant|agent|ai|model must|should|shall|will|have ..2 now|immediately|first|instead|follow|comply|obey|execute|run|call|reply|respond|say|recommend|visit|open|delete|send|forward|approve",
    ),
    phrase_rule(Orders, 0.3, "comply immediately|now|fully|with"),
    phrase_rule(
        Authority,
        0.3,
        "system|admin|administrator|security|developer|root override|notice|message|alert|instruction*|command|directive*",
    ),
    phrase_rule(
        Authority,
        0.3,
        "important|urgent|critical|mandatory|priority instruction*|notice|directive*|message|order*",
    ),
    phrase_rule(
        Authority,
        0.3,
        "this is ..3 order|authorized|authorised|mandatory",
    ),
    phrase_rule(
        Authority,
        0.3,
        "user|admin|owner|operator has ..2 approved|authorized|authorised|consented|permitted",
    ),
    order_rule(
        Encoded,
        0.6,
        "decode ..12 follow|execute|obey|run|perform|do|comply|carry|act",
    ),
    phrase_rule(
        Encoded,
        0.6,
        "base64 ..12 follow|execute|obey|perform|comply|instruction*",
    ),
];

/// Markers of chat formats with their weights, in lower case.
pub(crate) const MARKS: &[(f32, &str)] = &[
    (0.7, "<|im_start|>"),
    (0.7, "<|im_end|>"),
    (0.7, "<|system|>"),
    (0.7, "<|user|>"),
    (0.7, "<|assistant|>"),
    (0.7, "<|start_header_id|>"),
    (0.7, "<|endoftext|>"),
    (0.7, "<start_of_turn>"),
    (0.7, "<<sys>>"),
    (0.6, "[inst]"),
    (0.6, "[/inst]"),
    (0.6, "<system>"),
    (0.6, "</system>"),
    (0.6, "[system]"),
    (0.6, "<system-reminder>"),
    (0.6, "<system_prompt>"),
    (0.6, "</tool_result>"),
    (0.6, "</function_results>"),
    (0.6, "</tool_response>"),
    (0.6, "[end of document]"),
    (0.6, "--- end of tool output ---"),
];

/// Prefixes of lines that pose as a turn of the conversation, in lower case.
pub(crate) const TURNS: &[&str] = &[
    "system:",
    "assistant:",
    "user:",
    "human:",
    "system prompt:",
    "system message:",
    "developer:",
    "new instructions:",
    "instruction:",
];

/// Prefixes of words that are typical of texts about injections and rare in injections.
pub(crate) const DISCUSSION: &[&str] = &[
    "inject*",
    "jailbreak*",
    "attack*",
    "adversar*",
    "payload*",
    "malicious*",
    "exploit*",
    "detect*",
    "mitigat*",
    "vulnerab*",
    "phrase*",
    "researcher*",
    "owasp",
    "heuristic*",
    "classif*",
    "hijack*",
    "untrusted",
    "examples",
    "threat*",
];

/// Words after which a verb is an order.
pub(crate) const ORDERING: &[&str] = &[
    "please",
    "now",
    "must",
    "should",
    "and",
    "then",
    "first",
    "instead",
    "immediately",
    "always",
    "just",
    "also",
    "simply",
    "kindly",
    "shall",
    "assistant",
    "ai",
    "agent",
    "model",
    "next",
    "so",
    "will",
    "do",
];

/// Words after which "to" with a verb is an order, as in "you need to …".
pub(crate) const OBLIGING: &[&str] = &[
    "need",
    "have",
    "are",
    "required",
    "instructed",
    "ordered",
    "you",
    "is",
];
