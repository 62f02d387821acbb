//! Lists phrases of prompt injections. A text is suspicious if the signs within a short stretch of
//! it have a total weight of about 1.

/// Kind of suspicious phrase that a rule finds (a sign). Each kind counts once within a stretch of
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuspiciousPhraseKind {
    /// Phrase that tells the model to drop its instructions.
    Override,
    /// Phrase that gives the model another role or task.
    Persona,
    /// Text that imitates a turn of the conversation.
    FakeTurn,
    /// Phrase that asks the model to hide something from the user.
    Conceal,
    /// Phrase that asks for secrets.
    Secrets,
    /// Phrase that addresses a model and not a human reader.
    Addressed,
    /// Phrase that orders the reader to do something.
    Orders,
    /// Phrase by which the text claims authority over the model.
    Authority,
    /// Instruction to decode a text, such as base64, and to obey the decoded text.
    Encoded,
    /// HTML comment, which a reader does not see, with other signs in it.
    Comment,
    /// Characters that are invisible to people.
    Hidden,
}

impl SuspiciousPhraseKind {
    /// Number of kinds of suspicious phrases.
    pub(crate) const COUNT: usize = Self::Hidden as usize + 1;

    /// Returns the reason for suspicion that this kind of phrase gives, as a clause.
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

/// Rule that finds one kind of suspicious phrase.
pub(crate) struct InjectionRule {
    /// Kind of phrase that the rule finds.
    pub(crate) kind: SuspiciousPhraseKind,
    /// Weight of the phrase in the sum that decides whether a text is suspicious.
    pub(crate) weight: f32,
    /// Whether the sign has its full weight only if the phrase is an order ("ignore …", not "models
    /// ignore …").
    pub(crate) is_order: bool,
    /// Pattern of words, as in [`PhrasePattern`](crate::pattern::PhrasePattern).
    pub(crate) pattern: &'static str,
}

const fn create_instruction_rule(
    kind: SuspiciousPhraseKind,
    weight: f32,
    pattern: &'static str,
) -> InjectionRule {
    InjectionRule {
        kind,
        weight,
        is_order: true,
        pattern,
    }
}

const fn create_phrase_rule(
    kind: SuspiciousPhraseKind,
    weight: f32,
    pattern: &'static str,
) -> InjectionRule {
    InjectionRule {
        kind,
        weight,
        is_order: false,
        pattern,
    }
}

use SuspiciousPhraseKind::{
    Addressed, Authority, Conceal, Encoded, Orders, Override, Persona, Secrets,
};

/// Rules that find suspicious phrases by patterns of words.
pub(crate) const INJECTION_PHRASE_RULES: &[InjectionRule] = &[
    create_instruction_rule(
        Override,
        1.0,
        "ignore|disregard|forget|override|bypass|neglect|discard|dismiss ..3 previous|prior|above|earlier|preceding|all|any|your|former|existing|original|system|foregoing|these|other|safety ..4 instruction*|prompt*|directive*|guideline*|guardrail*|safeguard*|programming|training|told",
    ),
    create_instruction_rule(
        Override,
        0.6,
        "ignore|disregard|forget|override|bypass|discard ..2 previous|prior|above|earlier|preceding|your|original|system|safety ..3 rules|constraint*|command*|order*|restriction*|polic*|message*|conversation|context|task*",
    ),
    create_instruction_rule(
        Override,
        1.0,
        "ignore|disregard|forget everything|anything|all|what ..4 above|before|previously|told|said|instructed",
    ),
    create_instruction_rule(
        Override,
        1.0,
        "do not follow|obey ..3 previous|prior|above|earlier|your|original|system ..3 instruction*|rules|prompt*|guideline*",
    ),
    create_instruction_rule(
        Override,
        1.0,
        "don't|stop|never|quit follow|following|obey|obeying ..3 previous|prior|above|earlier|your|original|system ..3 instruction*|rules|prompt*|guideline*",
    ),
    create_phrase_rule(
        Override,
        1.0,
        "previous|prior|earlier|old|original|above instruction*|prompt|rules|directives ..2 are|is|were|have|no ..3 void|longer|replaced|revoked|cancelled|canceled|obsolete|superseded|overridden|outdated",
    ),
    create_phrase_rule(
        Override,
        1.0,
        "ignora|olvida|ignore ..3 instrucciones|instrucoes|instruções ..2 anteriores|previas|prévias",
    ),
    create_phrase_rule(
        Override,
        1.0,
        "ignoriere|vergiss|missachte ..3 vorherigen|bisherigen|obigen|früheren|deine ..2 anweisungen|instruktionen|regeln",
    ),
    create_phrase_rule(
        Override,
        1.0,
        "ignore|ignorez|oublie|oubliez ..3 instructions|consignes ..1 précédentes|antérieures",
    ),
    create_phrase_rule(Persona, 0.6, "you are|must now"),
    create_phrase_rule(Persona, 0.6, "you're now"),
    create_phrase_rule(Persona, 0.6, "from now on ..2 you"),
    create_phrase_rule(Persona, 0.4, "pretend ..2 you|to"),
    create_instruction_rule(Persona, 0.3, "act|behave as a|an|if|my"),
    create_phrase_rule(
        Persona,
        0.4,
        "new|updated|revised|actual|real|additional instruction*|directive*|orders",
    ),
    create_phrase_rule(
        Persona,
        0.7,
        "your new|real|actual|true|only|primary|next task|job|goal|role|objective|instruction*|purpose|mission",
    ),
    create_phrase_rule(
        Persona,
        0.4,
        "developer|dan|god|unrestricted|jailbreak mode",
    ),
    create_phrase_rule(Persona, 0.8, "do anything now"),
    create_phrase_rule(
        Conceal,
        0.6,
        "do not ..1 tell|inform|mention|reveal|disclose|alert|notify|warn|report|show ..5 user|human|person|operator|anyone|owner|developer",
    ),
    create_phrase_rule(
        Conceal,
        0.6,
        "don't|never ..1 tell|inform|mention|reveal|disclose|alert|notify|warn|report|show ..5 user|human|person|operator|anyone|owner|developer",
    ),
    create_phrase_rule(
        Conceal,
        0.6,
        "without ..2 telling|informing|notifying|alerting|asking|mentioning|warning ..4 user|human|person|operator|anyone|owner",
    ),
    create_phrase_rule(
        Conceal,
        0.6,
        "keep|hide ..4 secret|hidden|confidential|quiet|this ..2 from ..2 user|human|person|operator|owner",
    ),
    create_phrase_rule(
        Conceal,
        0.5,
        "not|never|don't mention|reveal|repeat|acknowledge ..2 this|these|the instruction*|message|note|step",
    ),
    create_phrase_rule(
        Conceal,
        0.5,
        "user|human|operator must|should|need not|never ..1 know|see|notice|learn",
    ),
    create_instruction_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|leak|exfiltrate|transmit|print|reveal|output|paste|include|append|share|give|dump|show|copy|encode|collect|read|cat|curl ..8 api|access|ssh|private|secret|signing|auth key|keys|token|tokens",
    ),
    create_instruction_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|leak|exfiltrate|transmit|print|reveal|output|paste|include|append|share|give|dump|show|copy|encode|collect|read|cat|curl ..8 password*|credential*|secrets|env|rsa|passwd|keychain|cookies",
    ),
    create_instruction_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|leak|exfiltrate|transmit|print|reveal|output|paste|dump|show|collect ..6 environment|env variable*|vars",
    ),
    create_instruction_rule(
        Secrets,
        0.7,
        "print|reveal|output|repeat|show|send|leak|disclose|tell|give|display ..5 system|initial|hidden|original|your prompt|instructions",
    ),
    create_instruction_rule(
        Secrets,
        0.5,
        "send|post|upload|email|forward|transmit|append ..6 conversation|chat|transcript|history ..4 to",
    ),
    create_phrase_rule(
        Addressed,
        0.35,
        "ai|llm|language|coding assistant*|agent*|model*|bot|system*",
    ),
    create_phrase_rule(
        Addressed,
        0.6,
        "if you are ..4 ai|llm|language|assistant|agent|chatbot|bot|claude|gpt|chatgpt|copilot|automated",
    ),
    create_phrase_rule(
        Addressed,
        0.6,
        "if you're ..4 ai|llm|language|assistant|agent|chatbot|bot|claude|gpt|chatgpt|copilot|automated",
    ),
    create_phrase_rule(
        Addressed,
        0.5,
        "attention|dear|hey|hello ..2 ai|assistant|agent|llm|claude|chatgpt|copilot|model|models|agents|assistants",
    ),
    create_phrase_rule(
        Addressed,
        0.5,
        "note|message|notice|instructions|memo|reminder to|for ..3 ai|assistant|assistants|llm|llms|agent|agents|claude|chatgpt|copilot|models|bots",
    ),
    create_instruction_rule(
        Orders,
        0.3,
        "run|execute|call|invoke|use|open|visit ..2 following|this|the ..3 command*|script|tool|link|url|code|function",
    ),
    create_instruction_rule(
        Orders,
        0.3,
        "respond|reply|answer|say only|with|that|exactly",
    ),
    create_instruction_rule(
        Orders,
        0.4,
        "delete|remove|wipe|erase|overwrite ..3 all|every|everything|entire ..3 file*|folder*|database*|repository|branch*|backup*|directory",
    ),
    create_instruction_rule(Orders, 0.4, "curl|wget ..12 sh|bash"),
    create_phrase_rule(
        Orders,
        0.3,
        "you|assistant|agent|ai|model must|should|shall|will|have ..2 now|immediately|first|instead|follow|comply|obey|execute|run|call|reply|respond|say|recommend|visit|open|delete|send|forward|approve",
    ),
    create_phrase_rule(Orders, 0.3, "comply immediately|now|fully|with"),
    create_phrase_rule(
        Authority,
        0.3,
        "system|admin|administrator|security|developer|root override|notice|message|alert|instruction*|command|directive*",
    ),
    create_phrase_rule(
        Authority,
        0.3,
        "important|urgent|critical|mandatory|priority instruction*|notice|directive*|message|order*",
    ),
    create_phrase_rule(
        Authority,
        0.3,
        "this is ..3 order|authorized|authorised|mandatory",
    ),
    create_phrase_rule(
        Authority,
        0.3,
        "user|admin|owner|operator has ..2 approved|authorized|authorised|consented|permitted",
    ),
    create_instruction_rule(
        Encoded,
        0.6,
        "decode ..12 follow|execute|obey|run|perform|do|comply|carry|act",
    ),
    create_phrase_rule(
        Encoded,
        0.6,
        "base64 ..12 follow|execute|obey|perform|comply|instruction*",
    ),
];

/// Markers of chat formats in lower case, each with its weight as a sign of an injection.
pub(crate) const CHAT_FORMAT_MARKER_WEIGHTS: &[(f32, &str)] = &[
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

/// Prefixes, in lower case, of lines that imitate the header of a message, such as one of the
/// system or of the user.
pub(crate) const MESSAGE_HEADER_PREFIXES: &[&str] = &[
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
pub(crate) const ATTACK_DISCUSSION_WORD_PREFIXES: &[&str] = &[
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

/// Words after which a verb counts as an order, such as `please`.
pub(crate) const WORDS_PRECEDING_IMPERATIVE_VERB: &[&str] = &[
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
pub(crate) const WORDS_PRECEDING_IMPERATIVE_INFINITIVE: &[&str] = &[
    "need",
    "have",
    "are",
    "required",
    "instructed",
    "ordered",
    "you",
    "is",
];
