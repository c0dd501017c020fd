//! `docs/openapi.json` against the API: every route is in it and none besides, and every answer has its fields.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use pagesniff::api::ROUTES;
use serde_json::{Value, json};

use super::{ADMIN, Served};
use crate::network::may_capture;

fn document() -> Value {
    serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap()
}

#[test]
fn every_route_is_described_and_no_other() {
    let document = document();
    let described: BTreeSet<_> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys().filter(|&method| method != "parameters");
            methods.map(move |method| (method.as_str(), path.as_str()))
        })
        .collect();
    assert_eq!(described, BTreeSet::from(ROUTES));
}

/// Holds a value against a schema: types, the fields that must and may be there, words of an enumeration.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return check(document, &document["components"]["schemas"][name], value, &format!("{at} ({name})"));
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let other = any.iter().find(|schema| (schema["type"] == "null") == value.is_null());
        return check(document, other.unwrap_or(&any[0]), value, at);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_it = schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.contains(&json!(kind)));
    assert!(is_it, "{at}: {kind} is not {}", schema["type"]);
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{at}: {value}");
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(document, &schema["items"], item, &format!("{at}[{index}]"));
    }
    let (Some(fields), Some(described)) = (value.as_object(), schema["properties"].as_object()) else { return };
    for (name, field) in fields {
        let schema = described.get(name).unwrap_or_else(|| panic!("{at}.{name} is not described"));
        check(document, schema, field, &format!("{at}.{name}"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(fields.contains_key(name), "{at}.{name} is missing");
    }
}

#[test]
fn every_answer_has_the_fields_that_are_described() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let (document, client) = (document(), served.client(ADMIN));
    let driving = served.traffic.drive_for(Duration::from_secs(2));
    thread::sleep(Duration::from_millis(500));
    let schema = |method: &str, path: &str, status: u16| {
        let answer = &document["paths"][path][method]["responses"][status.to_string()];
        let answer = match answer["$ref"].as_str() {
            Some(name) => &document["components"]["responses"][name.rsplit('/').next().unwrap()],
            None => answer,
        };
        answer["content"]["application/json"]["schema"].clone()
    };
    let wanted = json!({"tenant": [served.tenant], "duration_ms": 400});
    let begun = client.post("/v1/captures", &wanted);
    check(&document, &schema("post", "/v1/captures", 201), &begun.json(), "POST /v1/captures");
    check(&document, &json!({"$ref": "#/components/schemas/Wanted"}), &wanted, "what is sent");
    thread::sleep(Duration::from_millis(1_200));
    for path in ["/v1/caller", "/v1/status", "/v1/connections", "/v1/tenants", "/v1/reports", "/v1/captures"] {
        let answer = client.get(path);
        assert!(answer.status == 200 && !answer.json().as_array().is_some_and(Vec::is_empty), "{path}");
        check(&document, &schema("get", path, 200), &answer.json(), path);
    }
    let one = client.get(&begun.headers["location"]);
    check(&document, &schema("get", "/v1/captures/{id}", 200), &one.json(), "a capture");
    let snapshot = client.post("/v1/snapshots", &json!({"tenant": served.tenant, "last_ms": 60_000}));
    check(&document, &schema("post", "/v1/snapshots", 201), &snapshot.json(), "POST /v1/snapshots");
    let kept = client.get("/v1/snapshots");
    assert_eq!(kept.json().as_array().unwrap().len(), 1);
    check(&document, &schema("get", "/v1/snapshots", 200), &kept.json(), "GET /v1/snapshots");
    let refused = client.get("/v1/captures/none");
    check(&document, &schema("get", "/v1/captures/{id}", 404), &refused.json(), "a refusal");
    assert_eq!(client.get("/v1/openapi.json").json(), document);
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}
