//go:build page

package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// browser starts a headless Chromium. Whatever it reports on its console, a refusal by the content security policy above all, fails the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("no chromium: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, func(e any) {
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("script: %s", e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if e.Entry.Source == log.SourceSecurity || e.Entry.Source == log.SourceViolation || e.Entry.Source == log.SourceJavascript {
				t.Errorf("the browser refused: %s", e.Entry.Text)
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				t.Errorf("console: %v", e.Args)
			}
		}
	})
	if err := chromedp.Run(ctx, log.Enable()); err != nil { // the browser lives as long as the context of its first run
		t.Fatal(err)
	}
	return ctx
}

func do(t *testing.T, ctx context.Context, what string, actions ...chromedp.Action) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var page string
		_ = chromedp.Run(ctx, chromedp.Evaluate("document.activeElement.outerHTML + location.href", &page))
		t.Fatalf("%s: %v; focus: %s", what, err, page)
	}
}

func view(width int64, scheme string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		if err := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}).Do(ctx); err != nil {
			return err
		}
		return emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500).Do(ctx)
	})
}

// shoot keeps a picture where TRUEUP_SHOTS names a folder.
func shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	var png []byte
	do(t, ctx, "picture "+name, chromedp.FullScreenshot(&png, 100))
	if dir := os.Getenv("TRUEUP_SHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// layout is what a page must keep at any width, in any colours: nothing sticks out, every control has a name, and text is readable against its ground.
const layout = `(() => {
  const bad = [];
  if (document.documentElement.scrollWidth > innerWidth) bad.push("the page is " + document.documentElement.scrollWidth + " wide, the window " + innerWidth);
  for (const e of document.querySelectorAll("input:not([type=hidden]), select")) if (!e.labels.length) bad.push("no label: " + e.outerHTML);
  for (const e of document.querySelectorAll("a, button, summary")) if (!e.textContent.trim()) bad.push("no name: " + e.outerHTML);
  if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
  const seen = {}; for (const e of document.querySelectorAll("[id]")) { if (seen[e.id]) bad.push("id twice: " + e.id); seen[e.id] = 1; }
  const rgb = (s) => s.match(/[\d.]+/g).map(Number);
  const lum = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest("svg, script")) continue;
    const a = lum(rgb(getComputedStyle(e).color).slice(0, 3)), b = lum(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push("contrast " + ratio.toFixed(2) + ": " + walk.currentNode.data.trim().slice(0, 60));
  }
  return JSON.stringify(bad);
})()`

func TestPagesAtEachWidthAndInEachScheme(t *testing.T) {
	s := newSite(t, nil)
	s.cluster[prod].Now = &Rollout{Run: run1, Command: "scale", Actor: "olga", Why: "more pods", Phase: PhaseRunning, Began: time.Now().Add(-40 * time.Second), Node: "prod-node-18f3c0dbc3", Move: rollout.MoveResize, Done: 1, Total: 3}
	s.play(run1, 11)
	plan, err := s.Plan(t.Context(), prod, Request{Command: "scale", Why: "more pods"}, "olga")
	if err != nil {
		t.Fatal(err)
	}
	ctx := browser(t)
	do(t, ctx, "login", chromedp.Navigate(s.url+"/login"), chromedp.SendKeys("#token", s.operate+kb.Enter), chromedp.WaitVisible("#clusters"))
	pages := map[string]string{"fleet": "/", "cluster": "/clusters/" + prod, "blind": "/clusters/" + blind, "plan": "/clusters/" + prod + "/plans/" + plan.ID,
		"rollout": "/clusters/" + prod + "/rollouts/" + run1, "past": "/clusters/" + prod + "/rollouts/old-run", "history": "/history", "login": "/login", "error": "/nothing"}
	for name, path := range pages {
		for _, width := range []int64{380, 1400} {
			for _, scheme := range []string{"light", "dark"} {
				at := fmt.Sprintf("%s-%d-%s", name, width, scheme)
				var found string
				do(t, ctx, at, view(width, scheme), chromedp.Navigate(s.url+path), chromedp.WaitVisible("h1"), chromedp.Evaluate(layout, &found))
				var bad []string
				if err := json.Unmarshal([]byte(found), &bad); err != nil {
					t.Fatal(err)
				}
				for _, b := range bad {
					t.Errorf("%s: %s", at, b)
				}
				shoot(t, ctx, at)
			}
		}
	}
}

// press goes on with Tab until the focus is on what matches, then presses the keys. The focus must be seen at each stop.
func press(t *testing.T, ctx context.Context, selector, keys string) {
	t.Helper()
	for range 80 {
		var there, seen bool
		do(t, ctx, "tab to "+selector, chromedp.KeyEvent(kb.Tab),
			chromedp.Evaluate(fmt.Sprintf("document.activeElement.matches(%q)", selector), &there),
			chromedp.Evaluate("document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'", &seen))
		if !seen {
			t.Errorf("on the way to %s the focus can't be seen", selector)
		}
		if there {
			do(t, ctx, "press at "+selector, chromedp.KeyEvent(keys))
			return
		}
	}
	t.Fatalf("the keyboard does not reach %s", selector)
}

func TestARolloutByKeyboardAlone(t *testing.T) {
	s := newSite(t, nil)
	ctx := browser(t)
	do(t, ctx, "start", view(1400, "light"), chromedp.Navigate(s.url+"/clusters/"+prod), chromedp.WaitVisible("#token"))
	do(t, ctx, "login", chromedp.KeyEvent(s.operate+kb.Enter), chromedp.WaitVisible("#nodes"))
	press(t, ctx, "#role-worker", kb.ArrowDown+kb.ArrowDown)
	press(t, ctx, "#why", "more pods")
	press(t, ctx, "form[action$='/plans'] button", kb.Enter)
	do(t, ctx, "the plan", chromedp.WaitVisible(".steps"))
	press(t, ctx, "button.go", kb.Enter)
	do(t, ctx, "the rollout", chromedp.WaitVisible("#pause"), chromedp.WaitVisible("#line.live"))
	s.play(run1, 3)
	do(t, ctx, "the timeline moves", chromedp.WaitVisible("#turns .turn"))
	press(t, ctx, "#pause", kb.Enter)
	do(t, ctx, "paused", chromedp.WaitVisible("#resume"))
	press(t, ctx, "#resume", kb.Enter)
	do(t, ctx, "resumed", chromedp.WaitVisible("#pause"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.acts, ", "); strings.Count(got, "by olga") != 4 {
		t.Errorf("did %s", got)
	}
}

func TestReadingAndActingWithoutScript(t *testing.T) {
	s := newSite(t, nil)
	s.cluster[prod].Now = &Rollout{Run: run1, Command: "scale", Phase: PhaseRunning, Began: time.Now(), Total: 3}
	s.play(run1, 11)
	ctx := browser(t)
	do(t, ctx, "login", emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(s.url+"/clusters/"+prod), chromedp.WaitVisible("#token"),
		chromedp.SendKeys("#token", s.operate+kb.Enter), chromedp.WaitVisible("#nodes .bars"))
	var line string
	do(t, ctx, "the rollout", chromedp.Click("#head .note a"), chromedp.WaitVisible("#turns .turn"), chromedp.Text("#line", &line))
	if !strings.Contains(line, "Load the page again") {
		t.Errorf("without script the page says of itself: %q", line)
	}
	do(t, ctx, "pause", chromedp.Click("#pause"), chromedp.WaitVisible("#resume"))
}

func TestWhatIsTypedIsNotTakenAwayByAnUpdate(t *testing.T) {
	s := newSite(t, nil)
	ctx := browser(t)
	do(t, ctx, "login", chromedp.Navigate(s.url+"/login?next=/clusters/"+prod), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", s.operate+kb.Enter), chromedp.WaitVisible("#line.live"))
	do(t, ctx, "type", chromedp.SendKeys("#why", "half a rea"))
	s.mu.Lock()
	s.cluster[prod].State = "Scaling"
	s.cluster[prod].Offerings = s.cluster[prod].Offerings[:1]
	s.mu.Unlock()
	s.hub.Changed(prod)
	var why, focus string
	do(t, ctx, "the update", chromedp.Poll("document.getElementById('head').textContent.includes('Scaling')", nil), chromedp.KeyEvent("son"),
		chromedp.Value("#why", &why), chromedp.Evaluate("document.activeElement.id", &focus))
	if why != "half a reason" || focus != "why" {
		t.Errorf("after the update the field holds %q, and the focus is on %q", why, focus)
	}
}
