// Writes and reads numbers with franz-go until its input ends.
//
//	franz SERVERS TOPIC
//
// Each error that an application would see is a line; the last line is how many were written, and
// how many different ones were read.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pause = 20 * time.Millisecond
const patience = 60 * time.Second

func main() {
	log.SetFlags(0)
	servers, topic := strings.Split(os.Args[1], ","), os.Args[2]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers...),
		kgo.DefaultProduceTopic(topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup("g-franz"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()

	var lock sync.Mutex
	seen := map[int]bool{}
	show := func(format string, values ...any) {
		lock.Lock()
		defer lock.Unlock()
		fmt.Printf(format+"\n", values...)
	}
	reading, stop := context.WithCancel(context.Background())
	go read(reading, client, func(number int) {
		lock.Lock()
		defer lock.Unlock()
		seen[number] = true
	}, show)

	sent := write(client, ended, show)
	if err := client.Flush(context.Background()); err != nil {
		show("flush: %v", err)
	}
	count := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(seen)
	}
	for limit := time.Now().Add(patience); count() < sent && time.Now().Before(limit); {
		time.Sleep(pause)
	}
	stop()
	show("%d %d", sent, count())
}

func write(client *kgo.Client, ended <-chan struct{}, show func(string, ...any)) int {
	for number := 0; ; number++ {
		select {
		case <-ended:
			return number
		case <-time.After(pause):
		}
		record := kgo.StringRecord(strconv.Itoa(number))
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				show("produce: %v", err)
			}
		})
	}
}

func read(ctx context.Context, client *kgo.Client, take func(int), show func(string, ...any)) {
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			show("fetch: %s-%d: %v", topic, partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) {
			number, err := strconv.Atoi(string(record.Value))
			if err != nil {
				log.Fatal(err)
			}
			take(number)
		})
	}
}
