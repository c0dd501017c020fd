//! The page of `pagesniff report --html` in a real browser: nothing is loaded, nothing fails, every chart has its marks.
//!
//! Where chromedriver is missing these tests say so and do nothing; with `PAGESNIFF_REQUIRE_BROWSER=1` they fail instead.

#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;
#[allow(dead_code, reason = "shared with the daemon's tests, which use the rest")]
mod webdriver;

use std::path::PathBuf;

use harness::Dir;
use trafficgen::compose::compose_into;
use trafficgen::golden::Golden;
use webdriver::Browser;

/// Requests that give every chart something: repeats, several relations, a standby, depth.
const TRAFFIC: &str = "--pattern zipf --connections 8 --requests 6000 --pages 600 --also basebackup";

const CHARTS: [&str; 16] = [
    "rate",
    "relations",
    "mrc",
    "mrc-computes",
    "working-set",
    "blocks0",
    "blocks1",
    "blocks2",
    "blocks3",
    "popularity",
    "reuse-distance",
    "reuse-time",
    "latency",
    "latency-share",
    "wait-service",
    "depth",
];

/// The keys' code points in the WebDriver protocol.
const RIGHT: char = '\u{e014}';
const UP: char = '\u{e013}';
const ESCAPE: char = '\u{e00c}';

/// The report of composed traffic as a page.
fn page() -> (Dir, PathBuf) {
    let directory = Dir::new();
    let mut capture = Vec::new();
    let options = Golden { name: "page", purpose: "", options: TRAFFIC }.parse("-".into()).unwrap();
    compose_into(&mut capture, options).unwrap();
    directory.write("capture.pcap", &capture);
    assert_eq!(directory.run("--read capture.pcap --out traces --quiet").status, 0);
    let ended = directory.run("report traces --html page.html --quiet");
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    assert!(ended.stdout.contains("GetPage"), "the text is printed as well: {}", ended.stdout);
    let path = directory.path("page.html");
    (directory, path)
}

#[test]
fn the_page_loads_nothing_and_every_chart_has_marks() {
    let Some(browser) = Browser::start() else { return };
    let (_directory, path) = page();
    browser.open(&path);
    let file = format!("file://{}", path.display());
    // The browser draws its own controls with resources of its own, which it also tells as requests.
    let is_its_own = |url: &String| url.starts_with("data:") || url.starts_with("chrome://resources/");
    let requests: Vec<String> = browser.requests_of(&file).into_iter().filter(|url| !is_its_own(url)).collect();
    assert_eq!((requests, browser.console()), (vec![file], vec![]));
    for chart in CHARTS {
        let marks = browser.run(&format!("return document.querySelectorAll('#{chart} svg .m').length"));
        let size = browser.run(&format!(
            "return [...document.querySelectorAll('#{chart} svg .m')].every((mark) => {{
                 const box = mark.getBoundingClientRect(); return box.width > 0 && box.height > 0; }})"
        ));
        assert!(marks.as_u64().unwrap() > 0 && size == true, "{chart}: {marks} marks");
        let label = browser.run(&format!("return document.querySelector('#{chart} .chart svg').ariaLabel"));
        assert!(label.as_str().unwrap().len() > 40, "{chart}: {label}");
    }
    assert_eq!(browser.run("return document.querySelectorAll('figure').length"), CHARTS.len());
    let cells = browser.run("return JSON.parse(document.getElementById('blocks0-data').textContent).cells.length");
    assert!(cells.as_u64().unwrap() > 400, "{cells}");
    let beyond = browser.run("return document.documentElement.scrollWidth - innerWidth");
    assert!(beyond.as_i64().unwrap() <= 0, "the page is wider than a laptop's screen by {beyond}");
}

/// What the test above rests on: a request and an error are seen where there are some.
#[test]
fn the_browser_tells_requests_and_errors() {
    let Some(browser) = Browser::start() else { return };
    let directory = Dir::new();
    let bad =
        b"<!doctype html><link rel=icon href='data:,'><img src='http://127.0.0.1:9/x.png'><script>nothing()</script>";
    directory.write("bad.html", bad);
    let path = directory.path("bad.html");
    browser.open(&path);
    let requests = browser.requests_of(&format!("file://{}", path.display()));
    assert!(requests.iter().any(|url| url == "http://127.0.0.1:9/x.png"), "{requests:?}");
    assert!(browser.console().iter().any(|message| message.contains("nothing is not defined")));
}

#[test]
fn values_are_told_under_the_pointer_and_by_keys() {
    let Some(browser) = Browser::start() else { return };
    let (_directory, path) = page();
    browser.open(&path);
    let tip = || browser.run("const tip = document.getElementById('tip'); return tip.hidden ? null : tip.textContent");
    assert!(tip().is_null());
    for (chart, expected) in [
        ("rate", "GetPage/s: first "),
        ("relations", "1663/16384/"),
        ("blocks0", "block"),
        ("mrc", " added, missed: pages "),
        ("mrc-computes", ", standby (tenant "),
        ("working-set", " in 5 minutes ("),
        ("popularity", "% of all"),
        ("reuse-distance", " of the fetches"),
        ("reuse-time", " GetPage: "),
        ("latency", "s from 2026-"),
        ("latency-share", "% within "),
        ("wait-service", "p50 "),
        ("depth", "in flight: "),
    ] {
        // All of the traffic lies in one window, which is the only one to point at.
        let place = if chart == "working-set" { "" } else { ":nth-last-of-type(2)" };
        browser.hover(&format!("#{chart} .hit{place}"));
        let told = tip();
        assert!(told.as_str().is_some_and(|told| told.contains(expected)), "{chart}: {told}");
    }
    browser.focus("#blocks0 .chart svg");
    browser.press(&[RIGHT, UP]);
    let told = tip();
    assert!(told.as_str().is_some_and(|told| told.contains(" from 2026-") && told.contains("GetPage")), "{told}");
    browser.focus("#depth .chart svg");
    browser.press(&[RIGHT]);
    let first = tip();
    browser.press(&[RIGHT]);
    assert!(first.as_str().is_some_and(|first| first.starts_with("1 in flight")) && tip() != first, "{first}");
    browser.press(&[ESCAPE]);
    assert!(tip().is_null());
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
fn colours_follow_the_reader_and_paper_is_light() {
    let Some(browser) = Browser::start() else { return };
    let (_directory, path) = page();
    browser.open(&path);
    let colours = |medium, scheme| {
        browser.emulate(medium, scheme);
        browser.run(
            "const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
             return [of('body', 'backgroundColor'), of('body', 'color'), of('#blocks0 .m path', 'fill')].join(' ')",
        )
    };
    let (light, dark, print) = (colours("screen", "light"), colours("screen", "dark"), colours("print", "dark"));
    assert!(light.as_str().unwrap().starts_with("rgb(255, 255, 255)"), "{light}");
    assert!(dark.as_str().unwrap().starts_with("rgb(20, 23, 27)"), "{dark}");
    assert!(print.as_str().unwrap().starts_with("rgb(255, 255, 255) rgb(0, 0, 0)"), "{print}");
    // Nothing can be moved on paper: what is wider than it would be cut.
    let moved = "return [...document.querySelectorAll('.chart, .table')].filter((wide) => \
                 getComputedStyle(wide).overflowX !== 'visible').length";
    assert_eq!(browser.run(moved), 0);
}

#[test]
fn a_page_that_cannot_be_written_is_said_before_the_work() {
    let directory = Dir::new();
    let ended = directory.run("report nowhere --html missing/page.html");
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.contains("--html missing/page.html: cannot be created"), "{}", ended.stderr);
    directory.write("page.html", b"the last report");
    assert_eq!(directory.run("report nowhere --html page.html --json new.json").status, 1);
    let left = std::fs::read(directory.path("page.html")).unwrap();
    assert!(left == b"the last report" && !directory.path("new.json").exists());
    let ended = directory.run("report nowhere --html -");
    assert_eq!(ended.status, 2, "{}", ended.stderr);
}

#[test]
fn a_page_trace_has_no_classes_and_its_empty_charts_say_why() {
    let (directory, _) = page();
    let exported = directory.command("export traces --to page-trace").output().unwrap();
    directory.write("page_trace.bin", &exported.stdout);
    assert_eq!(directory.run("report page_trace.bin --html bare.html --quiet").status, 0);
    let bare = std::fs::read_to_string(directory.path("bare.html")).unwrap();
    let charts = bare.split_once("<h2>Charts</h2>").unwrap().1.split_once("<h2>Tables</h2>").unwrap().0;
    for word in ["by class", "and class", "is the class", "their classes", "redundant", "same compute"] {
        assert!(!charts.contains(word), "{word}");
    }
    assert_eq!(charts.matches("<p class=none>").count(), 4, "two of latency, waiting, depth");
}
