package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsPeer is a work queue on file: publish acks, explicit acks.
type natsPeer struct{ url string }

func newNats(url string) peer { return &natsPeer{url} }

func (peer *natsPeer) stream() (jetstream.JetStream, error) {
	link, err := nats.Connect(peer.url)
	if err != nil {
		return nil, err
	}
	return jetstream.New(link, jetstream.WithPublishAsyncMaxPending(100_000))
}

func (peer *natsPeer) open() error {
	stream, err := peer.stream()
	if err != nil {
		return err
	}
	settings := jetstream.StreamConfig{
		Name: queue, Subjects: []string{queue},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	}
	if _, err := stream.CreateStream(context.Background(), settings); err != nil {
		return err
	}
	_, err = stream.CreateConsumer(context.Background(), queue, jetstream.ConsumerConfig{
		Durable: queue, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1_000_000,
	})
	return err
}

func (peer *natsPeer) publisher() (publisher, error) {
	stream, err := peer.stream()
	return &natsPublisher{stream}, err
}

type natsPublisher struct{ stream jetstream.JetStream }

func (publisher *natsPublisher) publish(values [][]byte) error {
	acks := make([]jetstream.PubAckFuture, 0, len(values))
	for _, value := range values {
		ack, err := publisher.stream.PublishAsync(queue, value)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		}
	}
	return nil
}

func (peer *natsPeer) worker(batch int) (worker, error) {
	stream, err := peer.stream()
	if err != nil {
		return nil, err
	}
	consumer, err := stream.Consumer(context.Background(), queue, queue)
	if err != nil {
		return nil, err
	}
	made := &natsWorker{arriving: make(chan jetstream.Msg, 4*batch), batch: batch}
	_, err = consumer.Consume(
		func(arrived jetstream.Msg) { made.arriving <- arrived }, jetstream.PullMaxMessages(2*batch))
	return made, err
}

type natsWorker struct {
	arriving chan jetstream.Msg
	batch    int
	taken    []jetstream.Msg
}

func (worker *natsWorker) take() ([][]byte, error) {
	worker.taken = worker.taken[:0]
	select {
	case first := <-worker.arriving:
		worker.taken = append(worker.taken, first)
	case <-time.After(time.Second):
	}
	for len(worker.taken) > 0 && len(worker.taken) < worker.batch && len(worker.arriving) > 0 {
		worker.taken = append(worker.taken, <-worker.arriving)
	}
	values := make([][]byte, len(worker.taken))
	for index, each := range worker.taken {
		values[index] = each.Data()
	}
	return values, nil
}

func (worker *natsWorker) done() error {
	last := len(worker.taken) - 1
	for _, each := range worker.taken[:last] {
		if err := each.Ack(); err != nil {
			return err
		}
	}
	context, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return worker.taken[last].DoubleAck(context) // those before it are acked, too
}
