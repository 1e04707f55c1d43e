// Two members of a classic consumer group of franz-go, one after the other and together.
//
//	franz ADDRESS TOPIC GROUP BALANCER COUNT
//
// Three times COUNT records are written: the first are read by the first member alone, the next
// while both are there, the last by the second member after the first has left.  A member commits
// what it read before it gives partitions up, so every record is read once.  Each is printed as
// "member partition offset value".
//
// With FRANZ_SCRAM="256 USER PASSWORD" (or 512) the clients log in by SCRAM.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 60 * time.Second

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

type reading struct {
	member string
	record *kgo.Record
}

type member struct {
	client   *kgo.Client
	assigned chan struct{} // closed when it has partitions
	ended    chan struct{}
}

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	address, topic, group, balancer := os.Args[1], os.Args[2], os.Args[3], balancers[os.Args[4]]
	count, err := strconv.Atoi(os.Args[5])
	check(err)

	readings := make(chan reading)
	join := func(name string) *member {
		return joined(ctx, name, address, topic, group, balancer, readings)
	}

	write(ctx, address, topic, 0, count)
	first := join("first")
	read(ctx, readings, count)
	first.commit(ctx)

	second := join("second")
	wait(ctx, second.assigned)
	write(ctx, address, topic, count, count)
	read(ctx, readings, count)
	first.commit(ctx)
	second.commit(ctx)

	first.leave()
	write(ctx, address, topic, 2*count, count)
	read(ctx, readings, count)
	second.commit(ctx)
	second.leave()
}

func joined(ctx context.Context, name, address, topic, group string, balancer kgo.GroupBalancer, readings chan<- reading) *member {
	self := &member{assigned: make(chan struct{}), ended: make(chan struct{})}
	has := false
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		login(),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.Balancers(balancer),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if len(partitions) > 0 && !has {
				has = true
				close(self.assigned)
			}
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, _ map[string][]int32) {
			check(client.CommitUncommittedOffsets(ctx))
		}),
	)
	check(err)
	self.client = client
	go self.poll(ctx, name, readings)
	return self
}

func (self *member) poll(ctx context.Context, name string, readings chan<- reading) {
	defer close(self.ended)
	for {
		fetches := self.client.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Fatalf("%s: %s-%d: %v", name, topic, partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) { readings <- reading{name, record} })
	}
}

func (self *member) commit(ctx context.Context) {
	check(self.client.CommitUncommittedOffsets(ctx))
}

func (self *member) leave() {
	self.client.Close()
	<-self.ended
}

func login() kgo.Opt {
	given := strings.Fields(os.Getenv("FRANZ_SCRAM"))
	if len(given) != 3 {
		return kgo.SASL()
	}
	shown := scram.Auth{User: given[1], Pass: given[2]}
	if given[0] == "512" {
		return kgo.SASL(shown.AsSha512Mechanism())
	}
	return kgo.SASL(shown.AsSha256Mechanism())
}

func write(ctx context.Context, address, topic string, start, count int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), login(), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	check(err)
	defer client.Close()
	for number := start; number < start+count; number++ {
		client.Produce(ctx, kgo.StringRecord(strconv.Itoa(number)), func(_ *kgo.Record, err error) { check(err) })
	}
	check(client.Flush(ctx))
}

func read(ctx context.Context, readings <-chan reading, count int) {
	for range count {
		select {
		case each := <-readings:
			fmt.Println(each.member, each.record.Partition, each.record.Offset, string(each.record.Value))
		case <-ctx.Done():
			log.Fatal("the records did not come in time")
		}
	}
}

func wait(ctx context.Context, happened <-chan struct{}) {
	select {
	case <-happened:
	case <-ctx.Done():
		log.Fatal("the member was given no partitions in time")
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
