//! The page at `/`, in a real browser with real traffic, and by its headers.
//!
//! With `PAGESNIFF_PICTURES=DIR` pictures of it are left there, as PNG in base64.

use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::{Value, json};

use super::http::Client;
use super::{ADMIN, EXPIRED, ONE_TENANT, Served, free_port};
use crate::asked::Traffic;
use crate::harness::Dir;
use crate::network::may_capture;
use crate::sniffer::Sniffer;
use crate::webdriver::Browser;

/// The keys' code points in the WebDriver protocol.
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';
const SHIFT: char = '\u{e008}';
const ESCAPE: char = '\u{e00c}';
const UP: char = '\u{e013}';

/// On a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a script until what it returns is true.
fn wait_for(browser: &Browser, what: &str) {
    let since = Instant::now();
    while browser.run(&format!("return Boolean({what})")) != true {
        let text = || browser.run("return document.body.innerText");
        assert!(since.elapsed() < PATIENCE, "never: {what}\n{}\n{:?}", text(), browser.console());
        thread::sleep(Duration::from_millis(100));
    }
}

/// Presses Tab until what has the focus is what a selector finds.
fn tab_to(browser: &Browser, selector: &str, is_backwards: bool) {
    for _ in 0..300 {
        match is_backwards {
            false => browser.press(&[TAB]),
            true => browser.press_with(SHIFT, TAB),
        }
        if browser.run(&format!("return document.activeElement.matches({selector:?})")) == true {
            // Whoever uses the keys sees where they are.
            let outline = browser.run(
                "const of = document.activeElement, by = of.nextElementSibling;
                 return [of, by ?? of].some((of) => getComputedStyle(of).outlineStyle !== 'none')",
            );
            assert_eq!(outline, true, "{selector} does not show that it has the focus");
            return;
        }
    }
    panic!("the keyboard does not come to {selector}");
}

fn type_text(browser: &Browser, text: &str) {
    browser.press(&text.chars().collect::<Vec<_>>());
}

fn picture(browser: &Browser, name: &str) {
    if let Some(directory) = env::var_os("PAGESNIFF_PICTURES") {
        fs::write(std::path::Path::new(&directory).join(format!("{name}.png.base64")), browser.picture()).unwrap();
    }
}

/// The daemon and what it captures are ended.
fn end(served: Served) {
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn the_keyboard_alone_starts_a_capture_watches_it_and_opens_its_report() {
    if !may_capture() {
        return;
    }
    let Some(browser) = Browser::start() else { return };
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(45));
    let page = format!("http://127.0.0.1:{}/", served.port);
    browser.open_url(&page);
    wait_for(&browser, "document.activeElement.id === 'token'");
    assert_eq!(browser.run("return document.getElementById('inside').hidden"), true);
    type_text(&browser, ADMIN);
    browser.press(&[ENTER]);
    wait_for(&browser, "document.querySelectorAll('#tenants tbody tr').length === 50");

    let tenant = &served.tenant;
    tab_to(&browser, &format!("[aria-label='Watch {tenant}']"), false);
    browser.press(&[ENTER]);
    wait_for(&browser, "document.querySelector('#live-tiles dd')?.textContent > 3");
    wait_for(&browser, "document.querySelectorAll('#live-rows tbody tr').length > 0");
    let of_tenant = browser.run("return document.getElementById('live-tenant').textContent");
    assert_eq!(of_tenant, format!("{tenant} / {}", served.timeline));
    tab_to(&browser, "input[name=by]", false);
    browser.press(&['\u{e014}', '\u{e014}']);
    wait_for(&browser, "/^127.0.0.1:[0-9]+$/.test(document.querySelector('#live-rows tbody th')?.textContent)");

    tab_to(&browser, &format!("[aria-label='Capture {tenant}']"), true);
    browser.press(&[ENTER]);
    wait_for(&browser, "document.activeElement.id === 'capture-for'");
    browser.press(&[UP]);
    assert_eq!(browser.run("return document.getElementById('capture-for').value"), "10");
    tab_to(&browser, "button[value=captures]", false);
    browser.press(&[ENTER]);
    wait_for(&browser, "document.querySelector('#capture-rows .state')?.textContent === 'runs'");
    wait_for(&browser, "document.querySelector('#capture-rows progress')?.value > 0.2");
    picture(&browser, "wide-light");
    wait_for(&browser, "document.querySelector('#capture-rows .state')?.textContent === 'done'");
    let told = browser.run("return document.getElementById('news').textContent");
    assert!(
        told.as_str().is_some_and(|told| told.starts_with("The capture of") && told.contains("has ended")),
        "{told}"
    );
    let capture = served.client(ADMIN).get("/v1/captures").json()[0].clone();
    assert!(capture["requests"].as_u64().is_some_and(|requests| requests > 50), "{capture}");
    let shown = browser.run("return document.querySelector('#capture-rows td.n').textContent");
    assert_eq!(shown.as_str().unwrap().replace(',', ""), capture["requests"].to_string());

    tab_to(&browser, "#capture-rows button[aria-label^='Report ']", false);
    browser.press(&[ENTER]);
    wait_for(&browser, "document.querySelector('#report iframe')");
    wait_for_report(&browser);
    picture(&browser, "report");
    browser.press(&[ESCAPE]);
    wait_for(&browser, "document.activeElement.matches('#capture-rows button[aria-label^=\"Report \"]')");

    assert_eq!(browser.console(), Vec::<String>::new());
    let is_its = |document: &str| document == page || document.starts_with("blob:");
    let requests = browser.requests_where(is_its);
    for request in &requests {
        let is_ours = request.starts_with(&page) || request.starts_with("blob:") || request.starts_with("data:");
        assert!(is_ours && !request.contains(ADMIN), "{request}");
    }
    let reports = requests.iter().filter(|request| request.ends_with("/report")).count();
    assert!(reports == 1 && requests.len() > 15, "{requests:?}");
    driving.join().unwrap();
    end(served);
}

/// The report's own style and script are let through: it looks and answers as it does by itself.
fn wait_for_report(browser: &Browser) {
    let since = Instant::now();
    let shown = "return document.querySelectorAll('svg .m').length > 0 && document.readyState === 'complete'";
    while browser.run_in_frame("#report iframe", shown) != true {
        assert!(since.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(100));
    }
    let styled = "return getComputedStyle(document.querySelector('main')).maxWidth";
    assert_eq!(browser.run_in_frame("#report iframe", styled), "1080px");
    let answers = "const chart = document.querySelector('#latency-share .chart svg');
                   chart.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
                   return document.getElementById('tip').textContent";
    let told = browser.run_in_frame("#report iframe", answers);
    assert!(told.as_str().is_some_and(|told| told.contains("within")), "{told}");
    let reached = "try { return String(parent.document.title) } catch (error) { return error.name }";
    assert_eq!(browser.run_in_frame("#report iframe", reached), "SecurityError");
}

#[test]
fn a_token_shows_its_own_things_and_takes_them_away_with_it() {
    if !may_capture() {
        return;
    }
    let Some(browser) = Browser::start() else { return };
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(20));
    let page = format!("http://127.0.0.1:{}/", served.port);
    browser.open_url(&page);
    for (token, problem) in [("two words", "one word"), ("wrong", "not known"), (EXPIRED, "has expired")] {
        wait_for(&browser, "document.activeElement.id === 'token'");
        type_text(&browser, token);
        browser.press(&[ENTER]);
        wait_for(&browser, &format!("document.getElementById('door-problem').textContent.includes({problem:?})"));
        browser.run("document.getElementById('token').value = ''");
    }
    // The browser itself writes of each refusal; nothing else is wrong.
    let console = browser.console();
    assert!(console.iter().all(|line| line.contains("401 (Unauthorized)")), "{console:?}");

    type_text(&browser, ONE_TENANT);
    browser.press(&[ENTER]);
    wait_for(&browser, "document.querySelectorAll('#tenants tbody tr').length === 1");
    let text = browser.run("return document.body.innerText").as_str().unwrap().to_owned();
    assert!(text.contains(&served.tenant) && text.contains("take a token with admin"), "{text}");
    assert_eq!(browser.run("return document.querySelectorAll('#tiles > *').length"), 0);
    let longest = browser.run("return [...document.querySelectorAll('#capture-for option')].at(-1).value");
    assert_eq!(longest, "30", "no more than the token allows");

    browser.run("document.querySelector('#tenants button:nth-of-type(2)').click()");
    browser.run("document.querySelector('button[value=snapshots]').click()");
    wait_for(&browser, "document.querySelector('#capture-rows .state')?.textContent === 'kept'");
    browser.run("document.getElementById('capture-tenant').value = 'nonsense'");
    browser.run("document.querySelector('button[value=captures]').click()");
    wait_for(
        &browser,
        "document.getElementById('capture-problem').textContent.startsWith('No capture is started: tenant')",
    );

    // A tab that is loaded again has its token still; another one has not.
    browser.open_url(&page);
    wait_for(&browser, "document.querySelectorAll('#tenants tbody tr').length === 1");
    browser.run("document.getElementById('leave').click()");
    wait_for(&browser, "document.activeElement.id === 'token'");
    let left = browser.run("return document.body.textContent + JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie])");
    let left = left.as_str().unwrap();
    assert!(!left.contains(&served.tenant) && !left.contains(ONE_TENANT), "{left}");
    driving.join().unwrap();
    end(served);
}

#[test]
fn a_daemon_that_goes_away_is_said_and_found_again_without_a_reload() {
    if !may_capture() {
        return;
    }
    let Some(browser) = Browser::start() else { return };
    let (traffic, dir, port) = (Traffic::listen(), Dir::new(), free_port());
    let daemon = traffic.daemon(&dir, &format!("[api]\nlisten = \"127.0.0.1:{port}\"\n"));
    let driving = traffic.drive_for(Duration::from_secs(30));
    browser.open_url(&format!("http://127.0.0.1:{port}/"));
    // Where nobody has to say who it is, nobody is asked.
    wait_for(&browser, "document.querySelectorAll('#tenants tbody tr').length === 50");
    browser.run("document.querySelector('#tenants button').click()");
    wait_for(&browser, "!document.getElementById('live-figures').hidden");
    wait_for(&browser, "parseFloat(document.querySelector('#tiles dd').textContent.replace(',', '')) > 100");
    for (colours, width) in [("light", 1280), ("dark", 1280), ("dark", 400), ("light", 400)] {
        browser.emulate("screen", colours);
        browser.resize(width, 900);
        picture(&browser, &format!("{colours}-{width}"));
        let beyond = browser.run("return document.documentElement.scrollWidth - innerWidth");
        assert!(beyond.as_i64().unwrap() <= 0, "at {width} the page is too wide by {beyond}");
        assert_readable(&browser, colours);
    }
    assert_eq!(browser.console(), Vec::<String>::new());

    assert_eq!(daemon.stop("TERM").status, 0);
    wait_for(&browser, "!document.getElementById('problem').hidden");
    let said = browser.run("return document.getElementById('problem').innerText");
    assert!(said.as_str().unwrap().contains("does not answer. What is shown may be old. Trying again"), "{said}");
    picture(&browser, "away");
    let daemon = Sniffer::start_as_typed(&dir, "serve --config c.toml");
    wait_for(&browser, "document.getElementById('problem').hidden && document.body.dataset.state === 'live'");
    wait_for(&browser, "document.querySelectorAll('#live-rows tbody tr').length > 0");
    driving.join().unwrap();
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

/// Text against what is behind it: 4.5 to 1 is what WCAG 2.2 asks of small text (1.4.3).
fn assert_readable(browser: &Browser, colours: &str) {
    let poor = browser.run(
        "document.getAnimations().forEach((colours) => colours.finish());
         const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
         const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
           .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
           .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
         const behind = (of) => {
           for (; of; of = of.parentElement) {
             const colour = getComputedStyle(of).backgroundColor;
             if (colour.startsWith('rgb(')) return parse(colour);
           }
         };
         const poor = [];
         for (const of of document.querySelectorAll('body *')) {
           const text = [...of.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
           if (!text || of.offsetParent === null || getComputedStyle(of).color.startsWith('color(')) continue;
           const [one, other] = [light(parse(getComputedStyle(of).color)), light(behind(of))].sort((a, b) => b - a);
           const ratio = (one + 0.05) / (other + 0.05);
           if (ratio < 4.5) poor.push(`${of.tagName} ${of.className} ${of.textContent.slice(0, 20)}: ${ratio.toFixed(2)}`);
         }
         return poor",
    );
    assert_eq!(poor, json!([]), "{colours}");
}

#[test]
fn the_page_needs_no_token_holds_nothing_and_may_do_little() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let nobody = Client { port: served.port, token: None };
    let frame = nobody.get("/");
    assert_eq!((frame.status, frame.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    let policy = &frame.headers["content-security-policy"];
    for part in ["default-src 'none'", "connect-src 'self'", "form-action 'none'", "frame-ancestors 'none'"] {
        assert!(policy.split("; ").any(|directive| directive == part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(frame.text().contains("data-token=\"yes\"") && !frame.text().contains(&served.tenant));
    let mut bytes = frame.body.len();
    for (name, media_type) in
        [("style.css", "text/css"), ("main.js", "text/javascript"), ("live.js", "text/javascript")]
    {
        let plain = nobody.get(&format!("/page/{name}"));
        assert_eq!((plain.status, &plain.headers["x-content-type-options"]), (200, &"nosniff".to_owned()));
        assert!(plain.headers["content-type"].starts_with(media_type));
        let headers = [("accept-encoding", "gzip".to_owned())];
        let packed = nobody.ask("GET", &format!("/page/{name}"), &headers, b"");
        assert_eq!(packed.headers["content-encoding"], "gzip");
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(packed.body.as_slice());
        std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
        assert_eq!(unpacked, plain.body);
        bytes += packed.body.len();
    }
    assert!(bytes < 40_000, "{bytes}");
    for name in ["nothing.js", "..%2fmod.rs", "index.html"] {
        assert_eq!(nobody.get(&format!("/page/{name}")).status, 404, "{name}");
    }
    assert_eq!(nobody.post("/", &Value::Null).status, 405);
    served.traffic.drive_for(Duration::from_millis(100)).join().unwrap();
    end(served);
}
