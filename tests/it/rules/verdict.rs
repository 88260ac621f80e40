//! The named reasons, and what a log may show of a token.

use std::collections::BTreeSet;

use relaybus_host::lease::LeaseToken;
use relaybus_host::verdict::{AbortReason, Reason};

#[test]
fn every_reason_is_read_back_from_its_text() {
    for reason in Reason::ALL.iter().copied() {
        assert_eq!(reason.to_string().parse(), Ok(reason));
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        assert_eq!(serde_json::from_value::<Reason>(reason.as_str().into()).unwrap(), reason);
    }
}

#[test]
fn no_two_reasons_share_a_text() {
    let texts: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();

    assert_eq!(texts.len(), Reason::ALL.len());
    assert!(texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')), "{texts:?}");
}

#[test]
fn an_unknown_reason_is_an_error_that_quotes_it() {
    let error = "Timeout".parse::<Reason>().unwrap_err();

    assert!(error.contains("`Timeout`") && error.contains("`timeout`"), "{error}");
}

#[test]
fn each_abort_has_the_reason_of_its_name() {
    let reasons = [AbortReason::Timeout, AbortReason::LeaseLost, AbortReason::Shutdown].map(|abort| abort.reason().as_str());

    assert_eq!(reasons, ["timeout", "lease-lost", "shutdown"]);
}

#[test]
fn a_token_in_a_log_is_cut_short() {
    let token = LeaseToken::random();

    let shown = format!("{token:?}");

    assert!(shown.contains(&token.0.simple().to_string()[..8]) && !shown.contains(&token.0.simple().to_string()[..9]), "{shown}");
}

#[test]
fn r2_no_two_tokens_are_equal() {
    assert_ne!(LeaseToken::random(), LeaseToken::random());
}
