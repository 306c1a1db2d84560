"""What methods that train in the placement environment share: how they play, advantages, critic and steps."""
