package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// qmpDeadline bounds one QMP command. QEMU answers the slowest of ours (device_add) in milliseconds; under load a second was seen.
const qmpDeadline = 30 * time.Second

// QMP speaks the QEMU Machine Protocol with one guest's QEMU over a socket pair that nobody else can open.
// It is safe for concurrent use; commands run one after the other.
type QMP struct {
	mu      sync.Mutex
	conn    net.Conn
	replies *bufio.Scanner
	id      int
}

// QMPError is an error that QEMU answered.
type QMPError struct {
	Command string `json:"-"`
	Class   string `json:"class"`
	Desc    string `json:"desc"`
}

func (e *QMPError) Error() string {
	return fmt.Sprintf("qemu: %s: %s (%s)", e.Command, e.Desc, e.Class)
}

// qmpPair makes the two ends of a guest's QMP connection: ours, and the file that QEMU inherits.
func qmpPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	mine := os.NewFile(uintptr(fds[0]), "qmp")
	defer func() { _ = mine.Close() }()
	ours, err = net.FileConn(mine)
	if err != nil {
		_ = syscall.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "qmp-qemu"), nil
}

// newQMP reads QEMU's greeting and enters command mode.
func newQMP(conn net.Conn) (*QMP, error) {
	q := &QMP{conn: conn, replies: bufio.NewScanner(conn)}
	q.replies.Buffer(nil, 1<<20)
	if err := conn.SetReadDeadline(time.Now().Add(qmpDeadline)); err != nil {
		return nil, err
	}
	if !q.replies.Scan() {
		return nil, fmt.Errorf("qemu sent no greeting: %w", q.ended())
	}
	return q, q.Execute("qmp_capabilities", nil, nil)
}

// Execute runs one command and decodes what it returns into result, unless that is nil. Arguments may be nil.
func (q *QMP) Execute(command string, arguments, result any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.id++
	request := map[string]any{"execute": command, "id": q.id}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := q.conn.SetDeadline(time.Now().Add(qmpDeadline)); err != nil {
		return err
	}
	if err := json.NewEncoder(q.conn).Encode(request); err != nil {
		return fmt.Errorf("qemu: %s: %w", command, err)
	}
	return q.reply(command, result)
}

// reply reads lines until the answer to the present request; events and late answers are passed over.
func (q *QMP) reply(command string, result any) error {
	for q.replies.Scan() {
		var answer struct {
			ID     int             `json:"id"`
			Return json.RawMessage `json:"return"`
			Error  *QMPError       `json:"error"`
		}
		if err := json.Unmarshal(q.replies.Bytes(), &answer); err != nil {
			return fmt.Errorf("qemu: %s: unreadable answer %q: %w", command, q.replies.Text(), err)
		}
		switch {
		case answer.ID != q.id:
			continue
		case answer.Error != nil:
			answer.Error.Command = command
			return answer.Error
		case result == nil:
			return nil
		}
		return json.Unmarshal(answer.Return, result)
	}
	return fmt.Errorf("qemu: %s: no answer: %w", command, q.ended())
}

func (q *QMP) ended() error {
	if err := q.replies.Err(); err != nil {
		return err
	}
	return net.ErrClosed
}

// Close closes the connection; the guest runs on.
func (q *QMP) Close() error { return q.conn.Close() }
