package web

import (
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/server/access"
)

//go:embed pages static openapi.json
var files embed.FS

func openapiDocument() []byte {
	b, err := files.ReadFile("openapi.json")
	if err != nil {
		panic(err) // it is compiled in
	}
	return b
}

// parsePages makes one template of each page, within the common frame.
func parsePages() (map[string]*template.Template, error) {
	frame, err := template.New("frame.html").Funcs(functions()).ParseFS(files, "pages/frame.html", "pages/parts.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, name := range []string{"fleet", "cluster", "plan", "rollout", "history", "login", "error"} {
		t, err := frame.Clone()
		if err == nil {
			pages[name], err = t.ParseFS(files, "pages/"+name+".html")
		}
		if err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// frame is what every page has.
type frame struct {
	Title   string
	At      string // which entry of the navigation this is
	Events  string // the stream that tells when to look again; empty where nothing changes
	Caller  string
	Role    access.Role
	LogIn   bool // there is something to log in with, and nobody has
	LogOut  bool
	CSRF    string
	Version string
	Made    time.Time
	Data    any
}

// May is asked by templates.
func (f frame) May() bool { return f.Role.May(access.Operate) }

func (s *server) render(w http.ResponseWriter, c caller, status int, page string, f frame) error {
	f.Caller, f.Role, f.CSRF, f.Version, f.Made = c.Name, c.Role, c.csrf, s.Version, s.Now()
	f.LogIn, f.LogOut = c.csrf == "" && s.Keys.Len() > 0 && page != "login", c.csrf != ""
	var text strings.Builder
	if err := s.pages[page].Execute(&text, f); err != nil {
		return err
	}
	s.status(w.Header(), status)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text.String())) // who went away is not told
	return nil
}

func (s *server) static(w http.ResponseWriter, r *http.Request, _ caller) error {
	inside, err := fs.Sub(files, "static")
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, inside, r.PathValue("file")) //nolint:gosec // an embedded folder: there is nothing outside
	return nil
}

func (s *server) errorPage(w http.ResponseWriter, r *http.Request, c caller, err error) {
	p := s.explain(r, err)
	if err := s.render(w, c, p.Status, "error", frame{Title: p.Title, Data: p}); err != nil {
		s.Log.Error("a page could not be made", "err", err)
	}
}

func (s *server) fleetPage(w http.ResponseWriter, r *http.Request, c caller) error {
	clusters, err := s.Fleet.Clusters(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, c, http.StatusOK, "fleet", frame{Title: "Fleet", At: "fleet", Events: "/api/v1/events", Data: newFleet(clusters)})
}

func (s *server) clusterPage(w http.ResponseWriter, r *http.Request, c caller) error {
	d, err := s.Fleet.Cluster(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	runs, err := s.runs(r.Context(), d.ID)
	if err != nil {
		s.Log.Error("the history could not be read", "err", err)
	}
	return s.render(w, c, http.StatusOK, "cluster", frame{Title: d.Name, At: "fleet", Events: eventsOf(d.ID), Data: newClusterPage(d, runs)})
}

func (s *server) planPage(w http.ResponseWriter, r *http.Request, c caller) error {
	p, err := s.Planner.Planned(r.Context(), r.PathValue("id"), r.PathValue("plan"))
	if err != nil {
		return err
	}
	return s.render(w, c, http.StatusOK, "plan", frame{Title: "Plan for " + p.ClusterName, At: "fleet", Data: p})
}

func (s *server) rolloutPage(w http.ResponseWriter, r *http.Request, c caller) error {
	d, err := s.Fleet.Cluster(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	one, err := s.run(r.Context(), d.ID, r.PathValue("run"))
	if err != nil {
		return err
	}
	f := frame{Title: "Rollout on " + d.Name, At: "fleet", Data: newRolloutPage(d.Cluster, one, s.Now())}
	if one.Phase != PhaseEnded {
		f.Events = eventsOf(d.ID)
	}
	return s.render(w, c, http.StatusOK, "rollout", f)
}

func eventsOf(id string) string { return "/api/v1/clusters/" + url.PathEscape(id) + "/events" }

func (s *server) historyPage(w http.ResponseWriter, r *http.Request, c caller) error {
	doc, err := s.history(r)
	if err != nil {
		return err
	}
	slices.Reverse(doc.Items)
	return s.render(w, c, http.StatusOK, "history", frame{Title: "History", At: "history", Events: "/api/v1/events",
		Data: map[string]any{"Items": doc.Items, "Unreadable": doc.Unreadable, "Cluster": r.URL.Query().Get("cluster")}})
}

// planForm, startForm and actForm are what the buttons send.
func (s *server) planForm(w http.ResponseWriter, r *http.Request, c caller) error {
	if err := r.ParseForm(); err != nil {
		return bad("the form can't be read")
	}
	q := planRequest{Command: r.PostForm.Get("command"), Goals: map[rollout.Role]string{}, Why: r.PostForm.Get("why")}
	if q.Command == "scale" {
		for _, role := range rollout.Roles() {
			if offering := r.PostForm.Get(string(role)); offering != "" {
				q.Goals[role] = offering
			}
		}
	}
	p, err := s.plan(r, c, q)
	if err != nil {
		return err
	}
	return seeOther(w, r, "/clusters/"+url.PathEscape(r.PathValue("id"))+"/plans/"+url.PathEscape(p.ID))
}

func (s *server) startForm(w http.ResponseWriter, r *http.Request, c caller) error {
	run, err := s.start(r, c, r.PostFormValue("plan"))
	if err != nil {
		return err
	}
	return seeOther(w, r, rolloutPath(r.PathValue("id"), run))
}

func (s *server) actForm(action string) handler {
	return func(w http.ResponseWriter, r *http.Request, c caller) error {
		run, err := s.steer(r, c, action)
		if err != nil {
			return err
		}
		return seeOther(w, r, rolloutPath(r.PathValue("id"), run))
	}
}

func rolloutPath(id, run string) string {
	path := "/clusters/" + url.PathEscape(id)
	if run != "" {
		path += "/rollouts/" + url.PathEscape(run)
	}
	return path
}

func seeOther(w http.ResponseWriter, r *http.Request, path string) error {
	http.Redirect(w, r, path, http.StatusSeeOther) //nolint:gosec // a path of ours with escaped parts, or one that inside() has checked
	return nil
}

// functions are what templates may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":   func(t time.Time) string { return t.UTC().Format("2 Jan 15:04:05") },
		"views":   capacity.AllViews,
		"rollout": rolloutPath,
		"short":   func(s string) string { return s[:min(len(s), 8)] },
		"size":    func(o capacity.Offering) string { return o.String() },
		"seconds": took,
	}
}

// took prints a duration as people say it.
func took(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
