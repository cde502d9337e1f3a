"""What is publicly known of chips and the devices they are in, and which of them a text means."""
