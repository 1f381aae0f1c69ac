package cloudstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// Resize starts scaleVirtualMachine and returns the job's id without waiting for the job. The request is sent once and can't
// be accepted after expires (CloudStack's clock).
//
// A *rollout.RefusedError: nothing was done. rollout.ErrDenied: the same, for lack of rights. rollout.ErrUnreachable: unknown.
func (c *Client) Resize(ctx context.Context, instanceID, offeringID string, expires time.Time) (string, error) {
	return c.start(ctx, "scaleVirtualMachine", expires, map[string]string{"id": instanceID, "serviceofferingid": offeringID})
}

// start sends a request that starts a job, and returns the job's id.
func (c *Client) start(ctx context.Context, command string, expires time.Time, params map[string]string) (string, error) {
	if expires.IsZero() {
		return "", fmt.Errorf("%s: no expiry given", command)
	}
	var started struct {
		JobID string `json:"jobid"`
	}
	err := c.post(ctx, command, expires, params, &started)
	if err != nil {
		return "", refusal(err)
	}
	if started.JobID == "" {
		return "", fmt.Errorf("%w: CloudStack accepted %s, but named no job", rollout.ErrUnreachable, command)
	}
	return started.JobID, nil
}

// refusal turns CloudStack's own "no" to a change into a *rollout.RefusedError. An answer of CloudStack in place of a job
// id means that no job was started, also with code 530. A throttle (429) is no refusal: the same request may be sent later.
func refusal(err error) error {
	var answer *APIError
	if !errors.As(err, &answer) || answer.Code == 0 || answer.Code == codeThrottled || answer.denied() {
		return err
	}
	return &rollout.RefusedError{Command: answer.Command, Code: answer.Code, Text: answer.Text}
}

// job is an async job as CloudStack sends it.
type job struct {
	ID         string          `json:"jobid"`
	Command    string          `json:"cmd"` // a Java class name
	Status     number          `json:"jobstatus"`
	Code       number          `json:"jobresultcode"`
	Result     json.RawMessage `json:"jobresult"`
	InstanceID string          `json:"jobinstanceid"`
	Created    string          `json:"created"`
}

// Job reads an async job. rollout.ErrNotFound if CloudStack does not know it (any more).
func (c *Client) Job(ctx context.Context, jobID string) (rollout.Job, error) {
	j, err := c.job(ctx, jobID)
	if err != nil {
		return rollout.Job{}, err
	}
	return j.rollout()
}

func (c *Client) job(ctx context.Context, id string) (job, error) {
	var j job
	_, err := c.get(ctx, "queryAsyncJobResult", map[string]string{"jobid": id}, &j)
	if unknownID(err) {
		return job{}, fmt.Errorf("job %s: %w in CloudStack", id, rollout.ErrNotFound)
	}
	if err != nil {
		return job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	j.ID = id // older versions leave it out
	return j, nil
}

// jobCancelled is a fourth status in CloudStack's source (JobInfo.Status); no API answer with it is known.
const jobCancelled = 3

// cancelledByRestart is part of the text that CloudStack gives to the jobs of a management server that went away. Their code is
// 530 like that of any failure, and no field tells them apart, so here the text is all there is. Where it should read otherwise, the job
// counts as failed, and the two readings that follow decide.
const cancelledByRestart = "management server"

func (j job) rollout() (rollout.Job, error) {
	out := rollout.Job{ID: j.ID, Status: rollout.JobStatus(j.Status), Created: parseTime(j.Created)}
	switch j.Status {
	case number(rollout.JobPending), number(rollout.JobSucceeded):
		return out, nil
	case number(rollout.JobFailed):
		out.Code, out.Text = j.failure()
		out.Cancelled = strings.Contains(strings.ToLower(out.Text), cancelledByRestart)
		return out, nil
	case jobCancelled:
		out.Status, out.Code, out.Text, out.Cancelled = rollout.JobFailed, int(j.Code), "cancelled", true
		return out, nil
	}
	return rollout.Job{}, fmt.Errorf("job %s has the status %d, which trueup does not know", j.ID, j.Status)
}

// failure reads a failed job's result: an object with code and text, or bare text.
func (j job) failure() (int, string) {
	var f failure
	if json.Unmarshal(j.Result, &f) == nil && (f.Code != 0 || f.Text != "") {
		return f.Code, f.Text
	}
	var text string
	if json.Unmarshal(j.Result, &text) == nil && text != "" {
		return int(j.Code), text
	}
	return int(j.Code), "no reason given"
}

// resizeClass begins the name of the Java class of a resize: ScaleVMCmd, or ScaleVMCmdByAdmin for an administrator.
const resizeClass = "ScaleVMCmd"

// resize reports whether the job is a live scale of a VM.
func (j job) resize() bool {
	class := j.Command[strings.LastIndex(j.Command, ".")+1:]
	return strings.HasPrefix(class, resizeClass)
}

// FindJob looks for a resize job of the VM whose id was lost: the one that is pending, else the youngest. Whether a finished
// one is that which was lost, or one of an earlier rollout, is for the caller to judge by its Created.
// rollout.ErrNotFound if CloudStack knows none (it forgets finished ones after a day), or if the account may not list jobs.
func (c *Client) FindJob(ctx context.Context, instanceID string) (rollout.Job, error) {
	m, _, err := c.machine(ctx, instanceID)
	if err != nil {
		return rollout.Job{}, err
	}
	if id := m.pendingJob(); id != "" {
		j, err := c.job(ctx, id)
		switch {
		case err == nil && j.resize():
			return j.rollout()
		case err != nil && !errors.Is(err, rollout.ErrDenied) && !errors.Is(err, rollout.ErrNotFound):
			return rollout.Job{}, err
		}
	}
	return c.listedJob(ctx, instanceID)
}

// listedJob looks for the job among those that the account may see.
func (c *Client) listedJob(ctx context.Context, instanceID string) (rollout.Job, error) {
	none := fmt.Errorf("a resize job of instance %s: %w", instanceID, rollout.ErrNotFound)
	jobs, err := c.jobs(ctx)
	if errors.Is(err, rollout.ErrDenied) {
		return rollout.Job{}, none
	}
	if err != nil {
		return rollout.Job{}, fmt.Errorf("look for a resize job of instance %s: %w", instanceID, err)
	}
	var found *job
	for i := range jobs {
		if j := &jobs[i]; j.InstanceID == instanceID && j.resize() && j.better(found) {
			found = j
		}
	}
	if found == nil {
		return rollout.Job{}, none
	}
	return found.rollout()
}

// jobs lists the resize jobs, of any VM, that CloudStack still knows.
func (c *Client) jobs(ctx context.Context) ([]job, error) {
	return all(func(p page) ([]job, int, error) {
		params := map[string]string{"listall": "true", "keyword": resizeClass}
		p.set(params)
		var reply struct {
			Count int   `json:"count"`
			List  []job `json:"asyncjobs"`
		}
		_, err := c.get(ctx, "listAsyncJobs", params, &reply)
		return reply.List, reply.Count, err
	})
}

func (j *job) pending() bool { return j.Status == number(rollout.JobPending) }

// better prefers a pending job, then the younger one.
func (j *job) better(than *job) bool {
	if than == nil || j.pending() != than.pending() {
		return than == nil || j.pending()
	}
	return parseTime(j.Created).After(parseTime(than.Created))
}

// parseTime reads CloudStack's times, 2022-04-18T06:21:58+0000, which are not RFC 3339. Zero: there is none that can be read.
func parseTime(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05-0700", text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// unknownID: CloudStack says 431 about an id that does not exist (and about other wrong parameters, which trueup does not send).
func unknownID(err error) bool {
	var answer *APIError
	return errors.As(err, &answer) && answer.Code == codeParameter
}
