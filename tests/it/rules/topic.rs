//! Topics and patterns, held to a matcher that shares no code with ours.

use proptest::prelude::*;
use relaybus_host::topic::{MAX_TOKEN_BYTES, MAX_TOKENS, Topic, TopicError, TopicPattern};

fn topic(text: &str) -> Topic {
    text.parse().expect("a topic")
}

fn pattern(text: &str) -> TopicPattern {
    text.parse().expect("a topic pattern")
}

#[test]
fn a_topic_is_plain_tokens_joined_by_dots() {
    for good in ["a", "order.created", "A-1._._-", &"x".repeat(MAX_TOKEN_BYTES), &["a"; MAX_TOKENS].join(".")] {
        assert_eq!(good.parse::<Topic>().unwrap().as_str(), good);
    }
    for bad in ["", ".", "a.", ".a", "a..b", "a b", "ä", "a\0", "order.*", "order.>", &"x".repeat(MAX_TOKEN_BYTES + 1)] {
        assert!(bad.parse::<Topic>().is_err(), "`{bad}`");
    }
}

#[test]
fn errors_name_what_is_wrong_and_where() {
    assert_eq!("".parse::<Topic>(), Err(TopicError::Empty));
    assert_eq!(["a"; MAX_TOKENS + 1].join(".").parse::<Topic>(), Err(TopicError::TooManyTokens(MAX_TOKENS + 1)));
    assert_eq!("a.*".parse::<Topic>(), Err(TopicError::InvalidToken { position: 2, token: "*".to_owned() }));
    assert_eq!("a.>.b".parse::<TopicPattern>(), Err(TopicError::RestNotLast(2)));
    assert_eq!("a.b*".parse::<TopicPattern>(), Err(TopicError::InvalidToken { position: 2, token: "b*".to_owned() }));
    let told = "a..b".parse::<Topic>().unwrap_err().to_string();
    assert!(told.starts_with("token 2: expected") && told.ends_with("got ``"), "{told}");
}

#[test]
fn wildcards_stand_for_one_token_and_for_the_rest() {
    for (text, matching, others) in [
        ("order.created", &["order.created"][..], &["order", "order.created.eu", "order.Created", "orderXcreated"][..]),
        ("order.*", &["order.created", "order._"], &["order", "order.created.eu"]),
        ("*", &["order"], &["order.created"]),
        ("*.created", &["order.created"], &["created", "order.paid", "a.order.created"]),
        ("order.>", &["order.created", "order.created.eu"], &["order", "orders.created"]),
        (">", &["order", "order.created.eu"], &[]),
        ("*.>", &["order.created", "a.b.c"], &["order"]),
    ] {
        for name in matching {
            assert!(pattern(text).matches(&topic(name)), "`{text}` and `{name}`");
        }
        for name in others {
            assert!(!pattern(text).matches(&topic(name)), "`{text}` and `{name}`");
        }
    }
}

#[test]
fn json_is_checked_like_any_other_text() {
    assert_eq!(serde_json::from_str::<Topic>(r#""order.created""#).unwrap(), topic("order.created"));
    assert!(serde_json::from_str::<Topic>(r#""order.*""#).is_err());
    assert_eq!(serde_json::to_string(&pattern("order.>")).unwrap(), r#""order.>""#);
}

/// The definition, by recursion from the front.
fn matches(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern, topic) {
        ([], []) => true,
        ([">"], [_, ..]) => true,
        (["*", pattern @ ..], [_, topic @ ..]) => matches(pattern, topic),
        ([expected, pattern @ ..], [token, topic @ ..]) => expected == token && matches(pattern, topic),
        _ => false,
    }
}

proptest! {
    #[test]
    fn matching_is_as_defined(topic in "(a|b|_|A)(\\.(a|b|_|A)){0,4}", pattern in "((a|b|_|A|\\*)\\.){0,4}(a|b|_|A|\\*|>)") {
        let expected = matches(&pattern.split('.').collect::<Vec<_>>(), &topic.split('.').collect::<Vec<_>>());

        prop_assert_eq!(self::pattern(&pattern).matches(&self::topic(&topic)), expected);
    }

    #[test]
    fn a_topic_is_matched_by_itself_and_by_everything(text in "[A-Za-z0-9_-]{1,64}(\\.[A-Za-z0-9_-]{1,64}){0,15}") {
        let topic = topic(&text);

        prop_assert!(pattern(&text).matches(&topic) && pattern(">").matches(&topic));
        prop_assert!(pattern(&text.split('.').map(|_| "*").collect::<Vec<_>>().join(".")).matches(&topic));
    }

    #[test]
    fn parsing_never_panics_and_keeps_the_text(text in "\\PC{0,40}|[ab*>.]{0,12}") {
        if let Ok(topic) = text.parse::<Topic>() {
            prop_assert_eq!(topic.as_str(), &text);
            prop_assert!(text.parse::<TopicPattern>().is_ok());
        }
    }
}
