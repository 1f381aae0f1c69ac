package standin

import (
	"slices"
	"time"
)

// JobStatus is the `jobstatus` of an asynchronous job.
type JobStatus int

// The states of a job.
const (
	JobPending   JobStatus = 0
	JobSucceeded JobStatus = 1
	JobFailed    JobStatus = 2
)

// Job is an asynchronous job.
type Job struct {
	ID, Account, Command     string
	InstanceType, InstanceID string
	Status                   JobStatus
	ResultCode               int
	Result                   any // nil while pending
	Created, Completed       time.Time
	// Lost says that the API no longer knows the job.
	Lost bool
	// Unreported says that the job has ended and the API keeps showing it as pending.
	Unreported bool

	class      string
	generation int
}

// cancelledText is the result that CloudStack gives to the jobs of a management server that went away.
const cancelledText = "job cancelled because of management server restart or shutdown"

// startJob records a pending job of the calling account.
func (m *Model) startJob(c *call, instanceType, instanceID string) *Job {
	j := &Job{
		ID: m.newID(), Account: c.account.Name, Command: c.command.name, class: c.command.class,
		InstanceType: instanceType, InstanceID: instanceID, Created: m.now(), generation: m.generation,
	}
	m.jobs = append(m.jobs, j)
	return j
}

// reply is the answer to a call that started the job.
func (j *Job) reply() map[string]any { return map[string]any{"jobid": j.ID} }

// after runs step, d from now, with the lock held, if the management server that runs the job is still the same.
func (m *Model) after(d time.Duration, generation int, step func()) {
	m.cfg.Clock.AfterFunc(d, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.generation == generation {
			step()
		}
	})
}

// finish ends a job. A job whose fault says so ends without telling.
func (m *Model) finish(j *Job, result any, err *APIError) {
	at := m.placeOf(j)
	if _, ok := takeFault[JobLost](m, at); ok {
		j.Lost = true
	}
	if _, ok := takeFault[JobSilent](m, at); ok {
		j.Unreported = true
		return
	}
	j.Status, j.Result, j.Completed = JobSucceeded, result, m.now()
	if err != nil {
		j.fail(err)
	}
}

func (j *Job) fail(err *APIError) {
	j.Status, j.ResultCode = JobFailed, err.Code
	j.Result = map[string]any{"errorcode": err.Code, "errortext": err.Text}
}

// Restart stops the management server and starts it again after downtime. Calls during the downtime see their connection
// cut. Running jobs are marked as failed and never resumed; what the hypervisor was doing for them goes on.
func (m *Model) Restart(downtime time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restart(downtime)
}

func (m *Model) restart(downtime time.Duration) {
	m.generation++
	m.downUntil = m.now().Add(downtime)
	for _, j := range m.jobs {
		if j.Status == JobPending {
			j.fail(refusedf(cancelledText))
			j.Completed = m.now()
		}
	}
	clear(m.queues)
	m.followBroken(downtime)
	m.scanner.Stop()
	m.startScanner()
}

// enqueue runs work when the VM has nothing else to do: CloudStack has one work queue per VM.
func (m *Model) enqueue(vmID string, work func()) {
	m.queues[vmID] = append(m.queues[vmID], work)
	if len(m.queues[vmID]) == 1 {
		work()
	}
}

// release ends the work of the VM's queue and starts the next.
func (m *Model) release(vmID string) {
	m.queues[vmID] = slices.Delete(m.queues[vmID], 0, 1)
	if len(m.queues[vmID]) > 0 {
		m.queues[vmID][0]()
	}
}

// pendingJob returns the job that the API shows at the instance, or nil.
func (m *Model) pendingJob(instanceID string) *Job {
	for _, j := range m.jobs {
		if j.InstanceID == instanceID && j.Status == JobPending && !j.Lost {
			return j
		}
	}
	return nil
}

// jobJSON is the answer of queryAsyncJobResult and an entry of listAsyncJobs.
type jobJSON struct {
	AccountID      string    `json:"accountid"`
	Account        string    `json:"account"`
	DomainID       string    `json:"domainid"`
	DomainPath     string    `json:"domainpath"`
	UserID         string    `json:"userid"`
	Cmd            string    `json:"cmd"`
	JobStatus      JobStatus `json:"jobstatus"`
	JobProcStatus  int       `json:"jobprocstatus"`
	JobResultCode  int       `json:"jobresultcode"`
	JobResultType  string    `json:"jobresulttype,omitempty"`
	JobResult      any       `json:"jobresult,omitempty"`
	InstanceType   string    `json:"jobinstancetype,omitempty"`
	InstanceID     string    `json:"jobinstanceid,omitempty"`
	Created        string    `json:"created"`
	Completed      string    `json:"completed,omitempty"`
	JobID          string    `json:"jobid"`
	ManagementID   string    `json:"managementserverid"`
	ManagementName string    `json:"managementservername"`
}

func (m *Model) jobJSON(j *Job) jobJSON {
	out := jobJSON{
		Account: j.Account, DomainID: m.defaults.DomainID, DomainPath: "ROOT", Cmd: j.class,
		JobStatus: j.Status, JobResultCode: j.ResultCode, JobResult: j.Result, JobID: j.ID,
		InstanceType: j.InstanceType, InstanceID: j.InstanceID, Created: stamp(j.Created),
		ManagementID: m.defaults.HostID, ManagementName: "management-1",
	}
	if a := m.account(j.Account); a != nil {
		out.AccountID, out.UserID = a.ID, a.UserID
	}
	if j.Status != JobPending {
		out.JobResultType, out.Completed = "object", stamp(j.Completed)
	}
	return out
}

func queryAsyncJobResult(c *call) (any, error) {
	j := c.m.job(c.str("jobid"))
	if j == nil || j.Lost {
		return nil, unknownID(c.command.lower(), "jobid", c.str("jobid"))
	}
	if err := c.mayUse(Owner{Account: j.Account}, j.ID); err != nil {
		return nil, err
	}
	return c.m.jobJSON(j), nil
}

func listAsyncJobs(c *call) (any, error) {
	scope, err := c.scope()
	if err != nil {
		return nil, err
	}
	since, err := c.time("startdate")
	if err != nil {
		return nil, err
	}
	var out []jobJSON
	for _, j := range c.m.jobs {
		if !j.Lost && scope.includes(Owner{Account: j.Account}) && !j.Created.Before(since) && contains(j.class, c.str("keyword")) {
			out = append(out, c.m.jobJSON(j))
		}
	}
	return listReply(c, "asyncjobs", out), nil
}

// stamp writes a time as CloudStack's API does, which is not RFC 3339.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-0700") }
