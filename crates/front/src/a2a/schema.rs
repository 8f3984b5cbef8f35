//! Schemas of the requests that clients send, from the proto of A2A 1.0. `decode` applies them.

/// A message of the proto.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) fields: &'static [Field],
    /// Fields of which exactly one must be present; empty if there is no such rule.
    pub(super) one_of: &'static [&'static str],
}

/// A field by its JSON name; the name of the proto is accepted as well.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) required: bool,
}

/// The type of a field.
#[derive(Debug)]
pub(super) enum Kind {
    /// A text of at most this many characters; not empty if the field is required.
    Text(usize),
    /// A text bounded only by the size of the body.
    Long,
    Bytes,
    Time,
    Flag,
    /// An integer within these bounds.
    Whole(i64, i64),
    /// Names in the order of their numbers; the first is "unspecified".
    Enum(&'static [&'static str]),
    /// Any JSON, null too.
    Any,
    /// A JSON object.
    Object,
    Message(&'static Schema),
    /// At most this many.
    Many(usize, &'static Kind),
}

/// Longest id of a message, task, context or configuration that a client may use.
pub(super) const ID_MAX_CHARS: usize = 128;
/// Longest short text: names, media types, tokens of pages.
const NAME_MAX_CHARS: usize = 512;
/// Longest secret of a push configuration.
const SECRET_MAX_CHARS: usize = 4096;
/// Longest address.
const URL_MAX_CHARS: usize = 4096;
/// Most parts of a message.
const PARTS_MAX: usize = 256;
/// Most names in a list of them.
const NAMES_MAX: usize = 64;
/// Largest page of tasks; the specification's own figure.
const PAGE_MAX: i64 = 100;
/// Largest whole number that the proto can hold.
const INT_MAX: i64 = i32::MAX as i64;

const ID: Kind = Kind::Text(ID_MAX_CHARS);
const NAME: Kind = Kind::Text(NAME_MAX_CHARS);
const NAMES: Kind = Kind::Many(NAMES_MAX, &NAME);

const fn may(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        required: false,
    }
}

const fn must(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        required: true,
    }
}

const fn plain(fields: &'static [Field]) -> Schema {
    Schema {
        fields,
        one_of: &[],
    }
}

pub(super) static STATES: [&str; 9] = [
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

static ROLES: [&str; 3] = ["ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"];

static PART: Schema = Schema {
    fields: &[
        may("text", Kind::Long),
        may("raw", Kind::Bytes),
        may("url", Kind::Text(URL_MAX_CHARS)),
        may("data", Kind::Any),
        may("metadata", Kind::Object),
        may("filename", NAME),
        may("mediaType", NAME),
    ],
    one_of: &["text", "raw", "url", "data"],
};

static MESSAGE: Schema = plain(&[
    must("messageId", ID),
    may("contextId", ID),
    may("taskId", ID),
    must("role", Kind::Enum(&ROLES)),
    must("parts", Kind::Many(PARTS_MAX, &Kind::Message(&PART))),
    may("metadata", Kind::Object),
    may("extensions", NAMES),
    may("referenceTaskIds", NAMES),
]);

static AUTHENTICATION: Schema = plain(&[
    must("scheme", NAME),
    may("credentials", Kind::Text(SECRET_MAX_CHARS)),
]);

static INLINE_PUSH: Schema = plain(&[
    may("tenant", NAME),
    may("id", ID),
    may("taskId", ID),
    must("url", Kind::Text(URL_MAX_CHARS)),
    may("token", Kind::Text(SECRET_MAX_CHARS)),
    may("authentication", Kind::Message(&AUTHENTICATION)),
]);

static CONFIGURATION: Schema = plain(&[
    may("acceptedOutputModes", NAMES),
    may("taskPushNotificationConfig", Kind::Message(&INLINE_PUSH)),
    may("historyLength", Kind::Whole(0, INT_MAX)),
    may("returnImmediately", Kind::Flag),
]);

pub(super) static SEND: Schema = plain(&[
    may("tenant", NAME),
    must("message", Kind::Message(&MESSAGE)),
    may("configuration", Kind::Message(&CONFIGURATION)),
    may("metadata", Kind::Object),
]);

pub(super) static GET: Schema = plain(&[
    may("tenant", NAME),
    must("id", ID),
    may("historyLength", Kind::Whole(0, INT_MAX)),
]);

pub(super) static LIST: Schema = plain(&[
    may("tenant", NAME),
    may("contextId", ID),
    may("status", Kind::Enum(&STATES)),
    may("pageSize", Kind::Whole(1, PAGE_MAX)),
    may("pageToken", NAME),
    may("historyLength", Kind::Whole(0, INT_MAX)),
    may("statusTimestampAfter", Kind::Time),
    may("includeArtifacts", Kind::Flag),
]);

pub(super) static CANCEL: Schema = plain(&[
    may("tenant", NAME),
    must("id", ID),
    may("metadata", Kind::Object),
]);

pub(super) static SUBSCRIBE: Schema = plain(&[may("tenant", NAME), must("id", ID)]);

pub(super) static CREATE_PUSH: Schema = plain(&[
    may("tenant", NAME),
    may("id", ID),
    must("taskId", ID),
    must("url", Kind::Text(URL_MAX_CHARS)),
    may("token", Kind::Text(SECRET_MAX_CHARS)),
    may("authentication", Kind::Message(&AUTHENTICATION)),
]);

pub(super) static ONE_PUSH: Schema =
    plain(&[may("tenant", NAME), must("taskId", ID), must("id", ID)]);

pub(super) static LIST_PUSH: Schema = plain(&[
    may("tenant", NAME),
    must("taskId", ID),
    may("pageSize", Kind::Whole(0, INT_MAX)),
    may("pageToken", NAME),
]);

pub(super) static EXTENDED_CARD: Schema = plain(&[may("tenant", NAME)]);
