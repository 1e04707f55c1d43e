package main

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const queue = "bench"

// rabbit is a durable classic queue: persistent messages, publisher confirms, manual acks.
type rabbit struct{ url string }

func newRabbit(url string) peer { return &rabbit{url} }

func (rabbit *rabbit) channel() (*amqp.Channel, error) {
	link, err := amqp.Dial(rabbit.url)
	if err != nil {
		return nil, err
	}
	return link.Channel()
}

func (rabbit *rabbit) open() error {
	channel, err := rabbit.channel()
	if err != nil {
		return err
	}
	_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	return err
}

func (rabbit *rabbit) publisher() (publisher, error) {
	channel, err := rabbit.channel()
	if err != nil {
		return nil, err
	}
	return &rabbitPublisher{channel}, channel.Confirm(false)
}

type rabbitPublisher struct{ channel *amqp.Channel }

func (publisher *rabbitPublisher) publish(values [][]byte) error {
	context := context.Background()
	confirms := make([]*amqp.DeferredConfirmation, 0, len(values))
	for _, value := range values {
		sent := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: value}
		confirm, err := publisher.channel.PublishWithDeferredConfirmWithContext(
			context, "", queue, false, false, sent)
		if err != nil {
			return err
		}
		confirms = append(confirms, confirm)
	}
	for _, confirm := range confirms {
		if _, err := confirm.WaitContext(context); err != nil {
			return err
		}
	}
	return nil
}

func (rabbit *rabbit) worker(batch int) (worker, error) {
	channel, err := rabbit.channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Qos(2*batch, 0, false); err != nil {
		return nil, err
	}
	arriving, err := channel.Consume(queue, "", false, false, false, false, nil)
	return &rabbitWorker{arriving: arriving, batch: batch}, err
}

type rabbitWorker struct {
	arriving <-chan amqp.Delivery
	batch    int
	last     amqp.Delivery
}

func (worker *rabbitWorker) take() ([][]byte, error) {
	values := [][]byte{}
	select {
	case worker.last = <-worker.arriving:
		values = append(values, worker.last.Body)
	case <-time.After(time.Second):
		return values, nil
	}
	for len(values) < worker.batch {
		select {
		case worker.last = <-worker.arriving:
			values = append(values, worker.last.Body)
		default:
			return values, nil
		}
	}
	return values, nil
}

func (worker *rabbitWorker) done() error { return worker.last.Ack(true) }
