// Keeps the page up to date: on each sign from the server the page is fetched again, and the parts marked data-live that differ are replaced.
// Without this script the page shows all the same, as of its loading.
"use strict";
(() => {
  const events = document.body.dataset.events;
  const line = document.getElementById("line");
  if (!events || !window.EventSource) return;
  const policy = window.trustedTypes ? trustedTypes.createPolicy("trueup", { createHTML: (text) => text }) : { createHTML: (text) => text };

  const replace = (old, fresh) => {
    if (old.innerHTML === fresh.innerHTML) return;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    // Whoever is choosing or typing is not disturbed.
    if (focused && /^(INPUT|SELECT|TEXTAREA)$/.test(focused.tagName)) return;
    if ([...old.querySelectorAll("select, input:not([type=hidden])")].some((e) => e.value !== (e.tagName === "SELECT" ? "" : e.defaultValue))) return;
    const again = focused && [...old.querySelectorAll("a, button, summary")].indexOf(focused);
    for (const d of old.querySelectorAll("details[id]")) {
      const same = fresh.querySelector("#" + CSS.escape(d.id));
      if (same) same.open = d.open;
    }
    if (old.innerHTML === fresh.innerHTML) return;
    old.replaceChildren(...[...fresh.childNodes].map((n) => document.importNode(n, true)));
    if (focused) {
      const next = [...old.querySelectorAll("a, button, summary")][again] || document.getElementById("main");
      next.focus({ preventScroll: true });
    }
  };

  const say = (text, live) => { if (line && line.textContent !== text) { line.textContent = text; line.classList.toggle("live", live); } };

  let busy = false, due = false, timer = 0;
  const look = async () => {
    if (busy) { due = true; return; }
    busy = true; due = false;
    try {
      const reply = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
      if (!reply.ok) { say("The server does not show this page any more: load it again.", false); return; }
      const fresh = new DOMParser().parseFromString(policy.createHTML(await reply.text()), "text/html");
      for (const old of document.querySelectorAll("[data-live]")) {
        const next = fresh.getElementById(old.id);
        if (next) replace(old, next);
      }
      say("Live", true);
    } catch { say("The server does not answer. What you see is old.", false); }
    finally { busy = false; if (due) soon(); }
  };
  const soon = () => { if (!timer) timer = setTimeout(() => { timer = 0; look(); }, 300 + Math.random() * 300); };

  const source = new EventSource(events);
  source.onopen = () => { say("Live", true); soon(); };
  source.onerror = () => say(source.readyState === EventSource.CLOSED ? "Not live: load the page again." : "The server does not answer. What you see is old.", false);
  source.addEventListener("move", soon);
  source.addEventListener("changed", soon);
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
})();
