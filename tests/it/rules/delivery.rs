//! Ids: derived, so that a repeated fan-out creates nothing new on any store.

use proptest::prelude::*;
use relaybus_host::delivery::{DeliveryId, EventId, MAX_NAME_BYTES, Status, WorkerId, is_valid_name};
use uuid::Uuid;

const EVENT: EventId = EventId(Uuid::from_u128(0x0197_6a3c_1b2c_7def_8123_4567_89ab_cdef));

/// The value is part of the contract between versions: stored rows and other languages' fan-out carry it. It was computed apart from
/// the code, with Python's hashlib.
#[test]
fn a_delivery_id_is_the_same_for_ever() {
    assert_eq!(DeliveryId::derive(EVENT, "default", "mailer").to_string(), "01976a3c-1b2c-81ca-83e8-91ecf8e699aa");
}

#[test]
fn each_part_counts_and_their_border_too() {
    let ids = [
        DeliveryId::derive(EVENT, "default", "mailer"),
        DeliveryId::derive(EVENT, "defaultm", "ailer"),
        DeliveryId::derive(EVENT, "acme", "mailer"),
        DeliveryId::derive(EVENT, "default", "auditor"),
        DeliveryId::derive(EventId(Uuid::from_u128(EVENT.0.as_u128() + 1)), "default", "mailer"),
    ];

    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
}

proptest! {
    #[test]
    fn delivery_ids_are_of_version_8_and_ordered_by_their_events_time(millis in 0_u64..1 << 48, random: u128, handler in "[a-z]{1,9}") {
        let event = EventId(Uuid::from_u128(u128::from(millis) << 80 | random >> 48));
        let id = DeliveryId::derive(event, "default", &handler);

        prop_assert_eq!(id.0.get_version_num(), 8);
        prop_assert_eq!(id.0.get_variant(), uuid::Variant::RFC4122);
        prop_assert_eq!(&id.0.as_bytes()[..6], &event.0.as_bytes()[..6]);
        if millis > 0 {
            let earlier = EventId(Uuid::from_u128(u128::from(millis - 1) << 80 | u128::MAX >> 48));
            prop_assert!(DeliveryId::derive(earlier, "default", "x") < id);
        }
    }
}

#[test]
fn event_ids_are_of_version_7_and_worker_ids_are_random() {
    let (first, second) = (EventId::new(), EventId::new());

    assert!(first.0.get_version_num() == 7 && first < second);
    assert_eq!(WorkerId::random().0.get_version_num(), 4);
}

#[test]
fn an_id_is_read_back_from_its_text() {
    assert_eq!(EVENT.to_string().parse(), Ok(EVENT));
    assert!("mailer".parse::<DeliveryId>().is_err());
}

#[test]
fn names_are_of_1_to_64_plain_characters() {
    for good in ["a", "order-mailer_2", &"x".repeat(MAX_NAME_BYTES)] {
        assert!(is_valid_name(good), "`{good}`");
    }
    for bad in ["", "a b", "a.b", "ä", "a\0b", "../etc", &"x".repeat(MAX_NAME_BYTES + 1)] {
        assert!(!is_valid_name(bad), "`{bad}`");
    }
}

#[test]
fn a_status_reads_the_same_everywhere() {
    for status in [Status::Pending, Status::Processing, Status::Completed, Status::Buried] {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(status.to_string(), status.as_str());
    }
}
