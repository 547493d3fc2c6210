//! What a request is answered when it cannot be done.

use remoting::fields::FieldError;
use remoting::json::JsonError;
use remoting::{RequestCode, ResponseCode};

/// A response code that clients act on, and a remark for the person who reads the log: what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ResponseCode,
    pub(crate) remark: String,
}

impl Refusal {
    pub(crate) fn new(code: ResponseCode, remark: impl Into<String>) -> Refusal {
        Refusal { code, remark: remark.into() }
    }

    pub(crate) fn failed(remark: impl Into<String>) -> Refusal {
        Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
    }

    pub(crate) fn unknown_code(code: i32) -> Refusal {
        let remark = format!(
            "the nameserver does not know request code {}; send it to a broker, or check the port",
            RequestCode(code)
        );
        Refusal::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark)
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Refusal {
        Refusal::failed(error.to_string())
    }
}

impl From<JsonError> for Refusal {
    fn from(error: JsonError) -> Refusal {
        Refusal::failed(format!("{error}; send the body as the protocol describes it"))
    }
}
