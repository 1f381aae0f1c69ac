package web

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	strictjson "sigs.k8s.io/json"

	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// The bounds of what may be asked for.
const (
	mostHistory = 1000
	usualLimit  = 200
	mostWords   = 200 // names in a list
	longestWord = 300
)

func (s *server) openapi(w http.ResponseWriter, _ *http.Request, _ caller) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapiDocument()) // who went away is not told
	return nil
}

func (s *server) listClusters(w http.ResponseWriter, r *http.Request, _ caller) error {
	clusters, err := s.Fleet.Clusters(r.Context())
	if err != nil {
		return err
	}
	items := []clusterDocument{}
	for _, c := range clusters {
		items = append(items, newCluster(c))
	}
	return answer(w, http.StatusOK, map[string]any{"items": items})
}

func (s *server) getCluster(w http.ResponseWriter, r *http.Request, _ caller) error {
	c, err := s.Fleet.Cluster(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, newDetail(c))
}

func (s *server) getPreflight(w http.ResponseWriter, r *http.Request, _ caller) error {
	c, err := s.Fleet.Cluster(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	doc := map[string]any{"items": newChecks(c.Preflight)}
	if !c.Checked.IsZero() {
		doc["checked"] = c.Checked
	}
	return answer(w, http.StatusOK, doc)
}

// planRequest is the body of a request for a plan.
type planRequest struct {
	Command string                  `json:"command"`
	Goals   map[rollout.Role]string `json:"goals"`
	Nodes   []string                `json:"nodes"`
	Ignore  []string                `json:"ignore"`
	Why     string                  `json:"why"`
}

// check refuses what can't be meant. Texts end up in claims, which are shown on terminals: no control characters.
func (q planRequest) check() error {
	switch {
	case q.Command == "scale" && len(q.Goals) == 0:
		return bad("command scale needs goals: the offering of at least one role")
	case q.Command == "reconcile" && len(q.Goals) > 0:
		return bad("command reconcile takes no goals: the instances' own offerings are the goal")
	case q.Command != "scale" && q.Command != "reconcile":
		return bad("command is scale or reconcile")
	case len(q.Nodes) > mostWords || len(q.Ignore) > mostWords:
		return bad("at most %d nodes and checks can be named", mostWords)
	}
	texts := append(append([]string{q.Why}, q.Nodes...), q.Ignore...)
	for role, offering := range q.Goals {
		if !slices.Contains(rollout.Roles(), role) {
			return bad("a goal's role is worker, control or etcd")
		}
		if offering == "" {
			return bad("the goal of %s is empty", role)
		}
		texts = append(texts, offering)
	}
	for _, text := range texts {
		if len(text) > longestWord || !utf8.ValidString(text) || hasControl(text) {
			return bad("a text is longer than %d bytes, or has characters that are not printed", longestWord)
		}
	}
	return nil
}

func hasControl(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return true
		}
	}
	return false
}

func (s *server) postPlan(w http.ResponseWriter, r *http.Request, c caller) error {
	var q planRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	p, err := s.plan(r, c, q)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/clusters/"+r.PathValue("id")+"/plans/"+p.ID)
	return answer(w, http.StatusCreated, newPlan(p))
}

func (s *server) plan(r *http.Request, c caller, q planRequest) (p Plan, err error) {
	if err := q.check(); err != nil {
		return Plan{}, err
	}
	select {
	case s.plans <- struct{}{}:
		defer func() { <-s.plans }()
	default:
		return Plan{}, errBusy
	}
	_, err = s.act(r, c, "plan", func(ctx context.Context, id string) (string, error) {
		p, err = s.Planner.Plan(ctx, id, Request(q), c.Name)
		return "", err
	})
	return p, err
}

func (s *server) getPlan(w http.ResponseWriter, r *http.Request, _ caller) error {
	p, err := s.Planner.Planned(r.Context(), r.PathValue("id"), r.PathValue("plan"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, newPlan(p))
}

func (s *server) postRollout(w http.ResponseWriter, r *http.Request, c caller) error {
	var q struct {
		Plan string `json:"plan"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	run, err := s.start(r, c, q.Plan)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/clusters/"+r.PathValue("id")+"/rollouts/"+run)
	return answer(w, http.StatusAccepted, map[string]string{"run": run})
}

func (s *server) start(r *http.Request, c caller, plan string) (string, error) {
	if plan == "" {
		return "", bad("plan is the id of a plan: POST .../plans makes one")
	}
	return s.act(r, c, "start", func(ctx context.Context, id string) (string, error) { return s.Rollouts.Start(ctx, id, plan, c.Name) })
}

func (s *server) postAct(action string) handler {
	return func(w http.ResponseWriter, r *http.Request, c caller) error {
		if err := decode(r, &struct{}{}); err != nil {
			return err
		}
		run, err := s.steer(r, c, action)
		if err != nil {
			return err
		}
		return answer(w, http.StatusAccepted, map[string]string{"run": run})
	}
}

// steer pauses, resumes or releases. The run is empty for a pause of one that the snapshot does not show.
func (s *server) steer(r *http.Request, c caller, action string) (string, error) {
	return s.act(r, c, action, func(ctx context.Context, id string) (string, error) {
		switch action {
		case "resume":
			return s.Rollouts.Resume(ctx, id, c.Name)
		case "release":
			return s.Rollouts.Release(ctx, id, c.Name)
		}
		run := ""
		if d, err := s.Fleet.Cluster(ctx, id); err == nil && d.Now != nil {
			run = d.Now.Run
		}
		return run, s.Rollouts.Pause(ctx, id, c.Name)
	})
}

// decode reads a body of JSON, strictly. An empty one is an empty document.
func decode(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return err
		}
		return bad("the body could not be read")
	}
	if len(body) == 0 {
		body = []byte("{}")
	} else if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return bad("the body's Content-Type is not application/json")
	}
	if err := strict(body, into); err != nil {
		return bad("the body is not the JSON that openapi.json describes")
	}
	return nil
}

func strict(body []byte, into any) error {
	if body[0] != '{' { // null would be taken for an empty document
		return errors.New("not an object")
	}
	// This one takes names in their own case alone, and none twice: what a proxy or a log understood of a body is what is done.
	errs, err := strictjson.UnmarshalStrict(body, into)
	return errors.Join(append(errs, err)...)
}

func (s *server) getHistory(w http.ResponseWriter, r *http.Request, _ caller) error {
	doc, err := s.history(r)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, doc)
}

func (s *server) history(r *http.Request) (historyDocument, error) {
	values := r.URL.Query()
	q := Query{Cluster: values.Get("cluster"), Run: values.Get("run"), Limit: usualLimit}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostHistory {
			return historyDocument{}, bad("limit is a number from 1 to %d", mostHistory)
		}
		q.Limit = n
	}
	entries, unreadable, err := s.History.History(r.Context(), q)
	if err != nil {
		return historyDocument{}, err
	}
	return historyDocument{Items: append([]history.Entry{}, entries...), Unreadable: unreadable}, nil
}

func (s *server) listRollouts(w http.ResponseWriter, r *http.Request, _ caller) error {
	runs, err := s.runs(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	items := []*rolloutDocument{}
	for _, one := range runs {
		items = append(items, newRollout(&one))
	}
	return answer(w, http.StatusOK, map[string]any{"items": items})
}

func (s *server) getRollout(w http.ResponseWriter, r *http.Request, _ caller) error {
	one, err := s.run(r.Context(), r.PathValue("id"), r.PathValue("run"))
	if err != nil {
		return err
	}
	doc := runDocument{rolloutDocument: *newRollout(&one.Rollout), Nodes: append([]rollout.NodeReport{}, one.nodes...), Events: []eventDocument{}, Notes: append([]string{}, one.notes...)}
	for _, e := range one.events {
		doc.Events = append(doc.Events, newEvent(e))
	}
	return answer(w, http.StatusOK, doc)
}
