// A load generator for the peers of `python -m bench.queues`: RabbitMQ and NATS JetStream.
//
//	queuepeers -peer rabbitmq|nats -url URL -messages N -size S -batch B -publishers P -workers W
//	           [-rate R]
//
// Publishers and workers run at the same time, each with a connection of its own.  A publisher sends
// a batch and waits until the broker has confirmed all of it.  A worker takes what has arrived, at
// most a batch, compares every byte, and acknowledges it.  With a rate, message i is due at i / rate
// after the start and its latency counts from then; without one, from before its publish.
//
// The last line of the output is JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const idleTakesMax = 60 // in a row, of a second each, before messages are called lost

type peer interface {
	open() error
	publisher() (publisher, error)
	worker(batch int) (worker, error)
}

type publisher interface {
	publish(values [][]byte) error // back when all are durable
}

type worker interface {
	take() ([][]byte, error) // waits a second for the first
	done() error             // acknowledges what was taken, and waits for that
}

type options struct {
	messages, size, batch, publishers, workers, rate int
}

// --- messages: the same bytes for the same number as in gqbench.c and payload.py ------------------

const poolBytes = 1 << 20
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func newPool() []byte {
	pool := make([]byte, poolBytes)
	state := uint32(1)
	for index := range pool {
		state = state*1103515245 + 12345
		pool[index] = alphabet[(state>>16)&63]
	}
	return pool
}

func message(pool []byte, number, size int) []byte {
	start := number * 7919 % (poolBytes - size)
	head := fmt.Sprintf("%016x%016x", number, 0)
	return append([]byte(head), pool[start:start+size-len(head)]...)
}

func numberOf(value []byte) int {
	number := 0
	for _, each := range value[:16] {
		digit := int(each - '0')
		if each >= 'a' {
			digit = int(each-'a') + 10
		}
		number = number<<4 | digit
	}
	return number
}

// --- the book: every message is to arrive, as it was ----------------------------------------------

type book struct {
	options
	pool      []byte
	started   time.Time
	next      atomic.Int64 // the first number that nobody publishes yet
	left      atomic.Int64
	lock      sync.Mutex
	seen      []bool
	sent      []time.Duration // since the start
	latencies []float64       // ms
	doubles   int
}

func (book *book) batch() (first, count int) {
	for {
		begin := int(book.next.Load())
		end := min(begin+book.options.batch, book.messages)
		if book.rate > 0 {
			due := int(time.Since(book.started).Seconds() * float64(book.rate))
			end = min(end, due)
		}
		if begin >= book.messages {
			return 0, 0
		}
		if begin >= end {
			time.Sleep(500 * time.Microsecond)
			continue
		}
		if book.next.CompareAndSwap(int64(begin), int64(end)) {
			return begin, end - begin
		}
	}
}

func (book *book) values(first, count int) [][]byte {
	values := make([][]byte, count)
	now := time.Since(book.started)
	for index := range values {
		number := first + index
		values[index] = message(book.pool, number, book.size)
		book.sent[number] = now
		if book.rate > 0 {
			book.sent[number] = time.Duration(float64(number) / float64(book.rate) * 1e9)
		}
	}
	return values
}

func (book *book) arrived(values [][]byte) error {
	now := time.Since(book.started)
	for _, value := range values {
		if len(value) != book.size {
			return fmt.Errorf("a message of %d bytes", len(value))
		}
		number := numberOf(value)
		if number >= book.messages || string(value) != string(message(book.pool, number, book.size)) {
			return fmt.Errorf("message %d arrived changed", number)
		}
		book.lock.Lock()
		if book.seen[number] {
			book.doubles++
		} else {
			book.seen[number] = true
			book.latencies = append(book.latencies, float64(now-book.sent[number])/1e6)
			book.left.Add(-1)
		}
		book.lock.Unlock()
	}
	return nil
}

func (book *book) percentile(share float64) float64 {
	return book.latencies[min(int(float64(len(book.latencies))*share), len(book.latencies)-1)]
}

// --- the run --------------------------------------------------------------------------------------

func (book *book) publishAll(to publisher) error {
	for {
		first, count := book.batch()
		if count == 0 {
			return nil
		}
		if err := to.publish(book.values(first, count)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
}

func (book *book) workAll(from worker) error {
	for idle := 0; book.left.Load() > 0; {
		values, err := from.take()
		if err != nil {
			return fmt.Errorf("take: %w", err)
		}
		if len(values) == 0 {
			if idle++; idle > idleTakesMax {
				return fmt.Errorf("%d messages did not arrive", book.left.Load())
			}
			continue
		}
		idle = 0
		if err := book.arrived(values); err != nil {
			return err
		}
		if err := from.done(); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
	return nil
}

func run(broker peer, options options) (map[string]any, error) {
	if err := broker.open(); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	book := &book{options: options, pool: newPool()}
	book.seen = make([]bool, options.messages)
	book.sent = make([]time.Duration, options.messages)
	book.left.Store(int64(options.messages))
	var tasks []func() error
	for range options.publishers {
		to, err := broker.publisher()
		if err != nil {
			return nil, fmt.Errorf("publisher: %w", err)
		}
		tasks = append(tasks, func() error { return book.publishAll(to) })
	}
	for range options.workers {
		from, err := broker.worker(options.batch)
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		tasks = append(tasks, func() error { return book.workAll(from) })
	}
	fmt.Println("ready") // from here on the broker's CPU counts
	before := cpuSeconds()
	book.started = time.Now()
	errors := make(chan error, len(tasks))
	for _, task := range tasks {
		go func() { errors <- task() }()
	}
	for range tasks {
		if err := <-errors; err != nil {
			return nil, err
		}
	}
	seconds := time.Since(book.started).Seconds()
	sort.Float64s(book.latencies)
	return map[string]any{
		"seconds":     seconds,
		"cpu_seconds": cpuSeconds() - before,
		"doubles":     book.doubles,
		"latency_ms": map[string]float64{
			"p50": book.percentile(0.5), "p99": book.percentile(0.99), "max": book.percentile(1),
		},
	}, nil
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func main() {
	var options options
	name := flag.String("peer", "", "rabbitmq or nats")
	url := flag.String("url", "", "where it listens")
	flag.IntVar(&options.messages, "messages", 100_000, "")
	flag.IntVar(&options.size, "size", 100, "bytes of a message")
	flag.IntVar(&options.batch, "batch", 500, "messages published or taken at once")
	flag.IntVar(&options.publishers, "publishers", 2, "")
	flag.IntVar(&options.workers, "workers", 4, "")
	flag.IntVar(&options.rate, "rate", 0, "messages a second; 0 for as many as can be")
	flag.Parse()
	makers := map[string]func(string) peer{"rabbitmq": newRabbit, "nats": newNats}
	makeOne, isKnown := makers[*name]
	if !isKnown {
		fmt.Fprintf(os.Stderr, "no such peer: %q\n", *name)
		os.Exit(2)
	}
	figures, err := run(makeOne(*url), options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	line, _ := json.Marshal(figures)
	fmt.Println(string(line))
}
